// CLAHE of one plane, as OpenCV does it: a clipped histogram and a LUT a tile, then every pixel between the four nearest LUTs.
//
// Products and sums are `__fmul_rn` and `__fadd_rn`, which the compiler may not contract into fused multiply-adds.

#pragma once
#include "common.cuh"
#include "histogram.cu"

// The plane and its tiles. The tiles cover the plane and, right and below, what reflection adds to make them equal in size.
struct Tiling {
    u32 width, height;
    u32 tiles_x, tiles_y;
    u32 tile_width, tile_height;
    // The largest count of a bin; 0 means any.
    u32 clip;
    // (levels - 1) / (tile_width * tile_height), and 1 / tile_width, 1 / tile_height.
    float lut_scale, inverse_width, inverse_height;
};

// Where the picture continues beyond its edge: mirrored about the last pixel, which is not repeated (BORDER_REFLECT_101).
__device__ __forceinline__ u32 reflected(u32 i, u32 size) {
    if (i < size) return i;
    if (size == 1) return 0;
    i %= 2 * size - 2;
    return i < size ? i : 2 * size - 2 - i;
}

// What is cut off above `clip` goes to all bins alike, and the rest of that division to bins at equal steps. No second clip.
struct Redistribution {
    u32 clip, batch, residual, step;

    __device__ __forceinline__ Redistribution(u32 clip, u32 excess, u32 bins)
        : clip(clip), batch(excess / bins), residual(excess % bins), step(residual ? max(bins / residual, 1u) : 1) {}
    __device__ __forceinline__ u32 count(u32 bin, u32 count) const {
        if (clip == 0) return count;
        const u32 extra = residual && bin % step == 0 && bin / step < residual;
        return min(count, clip) + batch + extra;
    }
};

__device__ __forceinline__ u32 tile_level(u32 running, float scale, u32 top) {
    return min(u32(__float2int_rn(__fmul_rn(__uint2float_rn(running), scale))), top);
}

// Calls `count(sample)` for all samples of rows `from` to `to` of a tile, the whole block together. Rows are read in aligned
// 16-byte words, of which the ends may belong to the neighbours: the plane's memory must be readable in whole words.
template <typename S, typename Count>
__device__ __forceinline__ void visit_tile(const S* plane, const Tiling& t, u32 tile, u32 from, u32 to, Count count) {
    typedef Pack<S, 1> P;
    constexpr int AT_ONCE = 4;
    const u32 left = tile % t.tiles_x * t.tile_width;
    const u32 top = tile / t.tiles_x * t.tile_height;
    const u32 inside = left < t.width ? min(t.tile_width, t.width - left) : 0;
    const bool aligned = left % P::PIXELS == 0 && t.width % P::PIXELS == 0;
    const u32 packs = max((inside + (aligned ? 1 : 2) * (P::PIXELS - 1)) / P::PIXELS, 1u);
    u32 row = from + threadIdx.x / packs, column = threadIdx.x % packs;
    const u32 rows_on = blockDim.x / packs, columns_on = blockDim.x % packs;
    while (inside && row < to) {
        P here[AT_ONCE];
        // Which samples of a pack are the tile's: from `low` (perhaps below 0) to before `high`.
        int low[AT_ONCE], high[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            low[k] = high[k] = 0;
            if (row < to) {
                const u64 start = u64(reflected(top + row, t.height)) * t.width + left;
                const u32 shift = u32(start % P::PIXELS);
                low[k] = int(shift) - int(column * P::PIXELS);
                high[k] = low[k] + int(inside);
                if (high[k] > 0) here[k] = P::load(plane, start / P::PIXELS + column);
            }
            row += rows_on, column += columns_on;
            if (column >= packs) column -= packs, ++row;
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (low[k] <= 0 && high[k] >= P::PIXELS) {
#pragma unroll
                for (int p = 0; p < P::PIXELS; ++p) count(here[k].get(p));
            } else if (high[k] > 0) {
#pragma unroll
                for (int p = 0; p < P::PIXELS; ++p) {
                    if (low[k] <= p && p < high[k]) count(here[k].get(p));
                }
            }
        }
    }
    const u32 outside = t.tile_width - inside;
    for (u32 i = threadIdx.x; i < outside * (to - from); i += blockDim.x) {
        const u32 y = reflected(top + from + i / outside, t.height);
        const u32 x = reflected(left + inside + i % outside, t.width);
        count(plane[u64(y) * t.width + x]);
    }
}

// Depth 8. Grid: x = tiles * parts; the blocks of a tile share its rows, and the last of them makes the LUT.
// `histograms` (256 a tile) and `arrived` (1 a tile) are zero before and after.
extern "C" __global__ void __launch_bounds__(1024)
    clahe_tiles8(const u8* plane, Tiling t, u32 parts, u32* histograms, u32* arrived, u8* luts) {
    constexpr u32 COPIES = Counters8<1, false>::COPIES;
    __shared__ __align__(16) u32 counters[256 * COPIES];
    __shared__ u32 scratch[WARP];
    const Counters8<1, false> counting = {counters};
    counting.clear();
    const u32 tile = blockIdx.x / parts, part = blockIdx.x % parts;
    visit_tile(plane, t, tile, u32(u64(t.tile_height) * part / parts), u32(u64(t.tile_height) * (part + 1) / parts),
               [counting](u32 level) { counting.add(0, level); });
    __syncthreads();

    const u32 bin = threadIdx.x;
    u32* histogram = histograms + 256 * tile;
    u32 n = 0;
    if (bin < 256) {
#pragma unroll
        for (u32 copy = 0; copy < COPIES; ++copy) n += counters[bin * COPIES + (copy + bin) % COPIES];
        if (parts > 1 && n) atomicAdd(histogram + bin, n);
    }
    if (parts > 1) {
        if (!last_of(parts, arrived + tile)) return;
        if (bin < 256) n = __ldcg(histogram + bin), histogram[bin] = 0;
    }
    const u32 excess = block_sum(bin < 256 && t.clip && n > t.clip ? n - t.clip : 0, scratch);
    const Redistribution share(t.clip, excess, 256);
    const u32 running = block_scan(bin < 256 ? share.count(bin, n) : 0, scratch);
    if (bin < 256) luts[256 * tile + bin] = u8(tile_level(running, t.lut_scale, 255));
}

// Depth 16. A block takes tile after tile. The first `capacity` levels (a multiple of 8) are counted in shared memory; what
// does not fit there is added to this block's own 65536 counts in `spill`, zero before and after.
extern "C" __global__ void __launch_bounds__(1024)
    clahe_tiles16(const u16* plane, Tiling t, u32 capacity, u32* spill, u16* luts) {
    constexpr u32 BINS_A_WARP = 65536 / WARP;
    extern __shared__ u32 tile_words[];
    __shared__ u32 scratch[WARP];
    u32* more = spill + 65536ull * blockIdx.x;
    const HalfCounters counters = {tile_words, 0, capacity, more};
    const u32 lane = threadIdx.x % WARP;
    const u32 from = threadIdx.x / WARP * BINS_A_WARP + 4 * lane, end = from - 4 * lane + BINS_A_WARP;
    const u32 rows_at_once = max(HalfCounters::BETWEEN / t.tile_width, 1u);
    for (u32 tile = blockIdx.x; tile < t.tiles_x * t.tiles_y; tile += gridDim.x) {
        bool spilled = false;
        counters.clear();
        for (u32 row = 0; row < t.tile_height; row += rows_at_once) {
            visit_tile(plane, t, tile, row, min(row + rows_at_once, t.tile_height), [&](u32 level) {
                if (level < capacity && t.tile_width <= HalfCounters::BETWEEN) {
                    counters.add(level, 1);
                } else {
                    atomicAdd(more + level, 1);
                    spilled = true;
                }
            });
            spilled |= counters.settle();
        }
        __threadfence_block();
        spilled = __syncthreads_or(spilled);

        // Every warp owns 2048 levels in a row, and a lane four at a time. Three passes: excess, the warp's sum, running sum.
        auto counted = [=](u32 bin) {
            uint4 n = counters.counts(bin);
            if (spilled) {
                const uint4 m = __ldcg(reinterpret_cast<const uint4*>(more + bin));
                n = make_uint4(n.x + m.x, n.y + m.y, n.z + m.z, n.w + m.w);
            }
            return n;
        };
        const u32 clip = t.clip ? t.clip : ~0u;
        u32 excess = 0;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = counted(bin);
            excess += max(n.x, clip) + max(n.y, clip) + max(n.z, clip) + max(n.w, clip) - 4 * clip;
        }
        const Redistribution share(t.clip, block_sum(excess, scratch), 65536);
        auto shared_out = [=](u32 bin) {
            const uint4 n = counted(bin);
            return make_uint4(share.count(bin, n.x), share.count(bin + 1, n.y), share.count(bin + 2, n.z), share.count(bin + 3, n.w));
        };
        u32 sum = 0;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = shared_out(bin);
            sum += n.x + n.y + n.z + n.w;
        }
        sum = warp_sum(sum);
        u32 running = __shfl_sync(FULL_WARP, block_scan(lane == 0 ? sum : 0, scratch), 0) - sum;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = shared_out(bin);
            const u32 here = running + warp_scan(n.x + n.y + n.z + n.w);
            const u32 c = here - n.w, b = c - n.z, a = b - n.y;
            *reinterpret_cast<uint2*>(luts + 65536ull * tile + bin) =
                make_uint2(tile_level(a, t.lut_scale, 65535) | tile_level(b, t.lut_scale, 65535) << 16,
                           tile_level(c, t.lut_scale, 65535) | tile_level(here, t.lut_scale, 65535) << 16);
            running = __shfl_sync(FULL_WARP, here, WARP - 1);
            if (spilled) *reinterpret_cast<uint4*>(more + bin) = make_uint4(0, 0, 0, 0);
        }
        __threadfence_block();
        __syncthreads();
    }
}

// Position `i` in tiles, counted from the first tile's middle.
__device__ __forceinline__ float in_tiles(u32 i, float inverse) { return __fsub_rn(__fmul_rn(__uint2float_rn(i), inverse), 0.5f); }

// The four neighbours' levels, weighted: first along x, then along y.
__device__ __forceinline__ float between(float l00, float l01, float l10, float l11, float xa, float xb, float ya, float yb) {
    const float upper = __fadd_rn(__fmul_rn(l00, xb), __fmul_rn(l01, xa));
    const float lower = __fadd_rn(__fmul_rn(l10, xb), __fmul_rn(l11, xa));
    return __fadd_rn(__fmul_rn(upper, yb), __fmul_rn(lower, ya));
}

// Rounds half to even, into the low bits: for 0 <= value < 2^16, 1.5 * 2^23 leaves no place for a fraction.
__device__ __forceinline__ u32 rounded(float value) { return __float_as_uint(__fadd_rn(value, 12582912.0f)); }

// Between which two tiles a position lies, and its weights.
struct Between {
    u32 first, second;
    // The cell between those tiles' middles: 0 is before the first.
    u32 cell;
    float a, b;

    __device__ __forceinline__ Between(u32 i, float inverse, u32 tiles) {
        const float at = in_tiles(i, inverse);
        const float low = floorf(at);
        a = __fsub_rn(at, low);
        b = __fsub_rn(1.0f, a);
        cell = u32(int(low) + 1);
        first = u32(max(int(low), 0));
        second = u32(min(int(low) + 1, int(tiles) - 1));
    }
};

// Levels by the tiles' own LUTs.
template <typename S> struct TileLuts {
    const S* luts;

    __device__ __forceinline__ u32 level(const Tiling& t, const Between& x, const Between& y, u32 level) const {
        constexpr u32 L = levels<S>();
        const S* upper = luts + u64(y.first) * t.tiles_x * L + level;
        const S* lower = luts + u64(y.second) * t.tiles_x * L + level;
        const u64 first = u64(x.first) * L, second = u64(x.second) * L;
        return rounded(between(__uint2float_rn(__ldg(upper + first)), __uint2float_rn(__ldg(upper + second)),
                               __uint2float_rn(__ldg(lower + first)), __uint2float_rn(__ldg(lower + second)), x.a, x.b, y.a, y.b));
    }
};

// Levels by a table that holds a cell's four LUTs side by side: one access instead of four far from each other.
struct CellTables16 {
    const uint2* tables;

    __device__ __forceinline__ u32 level(const Tiling& t, const Between& x, const Between& y, u32 level) const {
        const uint2 e = __ldg(tables + (u64(y.cell) * (t.tiles_x + 1) + x.cell) * 65536 + level);
        return rounded(between(__uint2float_rn(e.x & 0xffff), __uint2float_rn(e.x >> 16), __uint2float_rn(e.y & 0xffff),
                               __uint2float_rn(e.y >> 16), x.a, x.b, y.a, y.b));
    }
};

// Grid: x = 32 blocks of 1024 threads, two levels a thread; y = cells of a row; z = rows of cells.
extern "C" __global__ void __launch_bounds__(1024) clahe_tables16(Tiling t, const u16* luts, uint4* tables) {
    const u32 x = blockIdx.y, y = blockIdx.z, pair = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 x1 = max(x, 1u) - 1, x2 = min(x, t.tiles_x - 1);
    const u64 upper = u64(max(y, 1u) - 1) * t.tiles_x, lower = u64(min(y, t.tiles_y - 1)) * t.tiles_x;
    const u32* pairs = reinterpret_cast<const u32*>(luts) + pair;
    const u32 l00 = pairs[(upper + x1) * 32768], l01 = pairs[(upper + x2) * 32768];
    const u32 l10 = pairs[(lower + x1) * 32768], l11 = pairs[(lower + x2) * 32768];
    tables[(u64(y) * (t.tiles_x + 1) + x) * 32768 + pair] =
        make_uint4(__byte_perm(l00, l01, 0x5410), __byte_perm(l10, l11, 0x5410), __byte_perm(l00, l01, 0x7632), __byte_perm(l10, l11, 0x7632));
}

// A thread takes one column, and rows at steps. Block: x = 32 columns, y = rows. Grid: x, y.
template <typename S, typename Luts> __device__ __forceinline__ void interpolate(S* plane, const Tiling& t, const Luts& luts) {
    constexpr int ROWS = 4;
    const u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= t.width) return;
    const Between x(column, t.inverse_width, t.tiles_x);
    for (u32 first = (blockIdx.y * blockDim.y + threadIdx.y) * ROWS; first < t.height; first += gridDim.y * blockDim.y * ROWS) {
        S* at = plane + u64(first) * t.width + column;
        u32 level[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) level[r] = first + r < t.height ? at[u64(r) * t.width] : 0;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const Between y(min(first + r, t.height - 1), t.inverse_height, t.tiles_y);
            level[r] = luts.level(t, x, y, level[r]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (first + r < t.height) at[u64(r) * t.width] = S(level[r]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(1024) clahe_direct8(u8* plane, Tiling t, const u8* luts) {
    interpolate(plane, t, TileLuts<u8>{luts});
}
extern "C" __global__ void __launch_bounds__(1024) clahe_direct16(u16* plane, Tiling t, const u16* luts) {
    interpolate(plane, t, TileLuts<u16>{luts});
}
extern "C" __global__ void __launch_bounds__(1024) clahe_cells16(u16* plane, Tiling t, const uint2* tables) {
    interpolate(plane, t, CellTables16{tables});
}

// The first position in cell `cell`: where `in_tiles` reaches `cell - 1`. Rounding may move it from where it should be.
__device__ __forceinline__ u32 cell_start(u32 cell, u32 tile, float inverse, u32 size) {
    if (cell == 0) return 0;
    u32 at = u32(min(u64(cell - 1) * tile + (tile + 1) / 2, u64(size)));
    while (at > 0 && floorf(in_tiles(at - 1, inverse)) >= float(int(cell) - 1)) --at;
    while (at < size && floorf(in_tiles(at, inverse)) < float(int(cell) - 1)) ++at;
    return at;
}

// The LUTs of a cell's four tiles, level by level: two `float`s' upper halves a word, which is all that 0 to 255 need.
#ifndef CELLS_BLOCKS
#define CELLS_BLOCKS 5
#endif
struct CellTable {
    const uint2* entries;

    __device__ __forceinline__ static u32 pair(u32 low, u32 high) {
        return (__float_as_uint(float(low)) >> 16) | (__float_as_uint(float(high)) & 0xffff0000u);
    }
    __device__ __forceinline__ u32 level(u32 from, float xa, float xb, float ya, float yb) const {
        const uint2 e = entries[from];
        return rounded(between(__uint_as_float(e.x << 16), __uint_as_float(e.x & 0xffff0000u), __uint_as_float(e.y << 16),
                               __uint_as_float(e.y & 0xffff0000u), xa, xb, ya, yb));
    }
};

// Depth 8, tiles of some size. A cell is the pixels between the same four tile middles; there the four LUTs are one table in
// shared memory. Block: x = 32, y = 8. Grid: x = (tiles_x + 1) * (tiles_y + 1) * bands; the blocks of a cell share its rows.
extern "C" __global__ void __launch_bounds__(256, CELLS_BLOCKS) clahe_cells8(u8* plane, Tiling t, const u8* luts, u32 bands) {
    constexpr int ROWS = 4;
    __shared__ uint2 entries[256];
    const u32 band = blockIdx.x % bands, cell = blockIdx.x / bands;
    const u32 cell_x = cell % (t.tiles_x + 1), cell_y = cell / (t.tiles_x + 1);
    const u32 level = threadIdx.y * WARP + threadIdx.x;
    const u32 x1 = max(cell_x, 1u) - 1, x2 = min(cell_x, t.tiles_x - 1);
    const u8* upper = luts + u64(max(cell_y, 1u) - 1) * t.tiles_x * 256 + level;
    const u8* lower = luts + u64(min(cell_y, t.tiles_y - 1)) * t.tiles_x * 256 + level;
    const u32 l00 = upper[x1 * 256], l01 = upper[x2 * 256], l10 = lower[x1 * 256], l11 = lower[x2 * 256];

    // The cell's four sides, each found by one lane in four.
    const u32 lane = threadIdx.x;
    const u32 side = lane & 2 ? cell_start(cell_y + (lane & 1), t.tile_height, t.inverse_height, t.height)
                              : cell_start(cell_x + (lane & 1), t.tile_width, t.inverse_width, t.width);
    const u32 left = __shfl_sync(FULL_WARP, side, 0), right = __shfl_sync(FULL_WARP, side, 1);
    const u32 cell_top = __shfl_sync(FULL_WARP, side, 2), height = __shfl_sync(FULL_WARP, side, 3) - cell_top;
    const u32 top = cell_top + u32(u64(height) * band / bands), bottom = cell_top + u32(u64(height) * (band + 1) / bands);
    const float low_x = float(int(cell_x) - 1), low_y = float(int(cell_y) - 1);
    const CellTable table = {entries};
    entries[level] = make_uint2(CellTable::pair(l00, l01), CellTable::pair(l10, l11));
    __syncthreads();

    // Four pixels a word where the rows are aligned; what is left at the sides, or all of it, one by one.
    const u32 word_left = t.width % 4 ? left : min((left + 3) / 4 * 4, right);
    const u32 word_right = t.width % 4 ? left : max(right / 4 * 4, word_left);
    for (u32 column = word_left + 4 * threadIdx.x; column < word_right; column += 4 * WARP) {
        float xa[4], xb[4];
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            xa[p] = __fsub_rn(in_tiles(column + p, t.inverse_width), low_x);
            xb[p] = __fsub_rn(1.0f, xa[p]);
        }
        for (u32 row = top + threadIdx.y; row < bottom; row += ROWS * blockDim.y) {
            u32* at = reinterpret_cast<u32*>(plane + u64(row) * t.width + column);
            const u64 step = u64(blockDim.y) * t.width / 4;
            u32 words[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) words[r] = row + r * blockDim.y < bottom ? at[r * step] : 0;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const float ya = __fsub_rn(in_tiles(row + r * blockDim.y, t.inverse_height), low_y);
                const float yb = __fsub_rn(1.0f, ya);
                u32 level[4];
#pragma unroll
                for (int p = 0; p < 4; ++p) level[p] = table.level((words[r] >> (8 * p)) & 0xff, xa[p], xb[p], ya, yb);
                words[r] = __byte_perm(__byte_perm(level[0], level[1], 0x0040), __byte_perm(level[2], level[3], 0x0040), 0x5410);
                if (row + r * blockDim.y < bottom) at[r * step] = words[r];
            }
        }
    }
    const u32 skipped = word_right - word_left;
    for (u32 i = left + threadIdx.x; i < right - skipped; i += WARP) {
        const u32 column = i < word_left ? i : i + skipped;
        const float xa = __fsub_rn(in_tiles(column, t.inverse_width), low_x);
        const float xb = __fsub_rn(1.0f, xa);
        for (u32 row = top + threadIdx.y; row < bottom; row += ROWS * blockDim.y) {
            u8* at = plane + u64(row) * t.width + column;
            const u64 step = u64(blockDim.y) * t.width;
            u32 level[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) level[r] = row + r * blockDim.y < bottom ? at[r * step] : 0;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const float ya = __fsub_rn(in_tiles(row + r * blockDim.y, t.inverse_height), low_y);
                const float yb = __fsub_rn(1.0f, ya);
                if (row + r * blockDim.y < bottom) at[r * step] = u8(table.level(level[r], xa, xb, ya, yb));
            }
        }
    }
}
