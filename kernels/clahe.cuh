// The common parts of CLAHE at both depths: tiles, clipping, interpolation.
//
// They work on one plane, like OpenCV's. Products and sums use `__fmul_rn` and `__fadd_rn`, which
// the compiler may not contract into fused multiply-adds.

#pragma once
#include "counting.cuh"
#include "levels.cuh"

// The plane and its tiles. The tiles cover the plane and the padding by reflection, on the right
// and at the bottom, that makes them equal in size.
struct Tiling {
    u32 width, height;
    u32 tiles_x, tiles_y;
    u32 tile_width, tile_height;
    // The largest count of a bin; 0 for no limit.
    u32 clip;
    // (levels - 1) / (tile_width * tile_height), and 1 / tile_width, 1 / tile_height.
    float lut_scale, inverse_width, inverse_height;
    // Span of levels, of the middle four fifths of a tile, at which its LUT has its full effect; 0
    // for LUTs as they are.
    u32 full_span;

    // Returns whether a level is in the middle four fifths, except for the last of them. `running`
    // is the number of samples that are not above it.
    __device__ __forceinline__ bool spans(u32 running) const {
        const u64 area = u64(tile_width) * tile_height;
        return 10 * u64(running) > area && 10 * u64(running) < 9 * area;
    }
    // Returns the strength of the LUT of a tile that spans so many levels.
    __device__ __forceinline__ u32 strength_of(u32 span) const { return min(span, full_span) * FULL_STRENGTH / full_span; }
};

// Maps a position beyond the edge into the picture: mirrored about the last pixel, which is not
// repeated (BORDER_REFLECT_101).
__device__ __forceinline__ u32 reflected(u32 i, u32 size) {
    if (i < size) return i;
    if (size == 1) return 0;
    i %= 2 * size - 2;
    return i < size ? i : 2 * size - 2 - i;
}

// The excess spread evenly over `bins` bins from `from` on, and the remainder of that division,
// spread over bins at equal steps. There is no second clipping.
struct Redistribution {
    u32 from, bins, batch, residual, step, inverse;

    __device__ __forceinline__ Redistribution() {}
    __device__ __forceinline__ Redistribution(u32 excess, u32 from, u32 bins)
        : from(from), bins(bins), batch(excess / bins), residual(excess % bins), step(residual ? max(bins / residual, 1u) : 1),
          inverse(~0u / step + 1) {}
    // Returns the sum of the shares of all bins up to this one. `inverse` is 2^32 / step rounded
    // up, which divides numbers of 16 bits exactly.
    __device__ __forceinline__ u32 through(u32 bin) const {
        const u32 place = min(bin - from, bins - 1), steps = step == 1 ? place : __umulhi(place, inverse);
        return bin < from ? 0 : batch * (place + 1) + min(steps + 1, residual);
    }
};

__device__ __forceinline__ u32 tile_level(u32 running, float scale, u32 top) {
    return min(u32(__float2int_rn(__fmul_rn(__uint2float_rn(running), scale))), top);
}

// Calls `count(sample)` for all samples in rows `from` to `to` of a tile. `thread` is the number of
// this thread among `threads` threads. Rows are read in aligned 16-byte words with ends that may
// belong to neighbours or lie outside the plane: its memory must be readable in whole words.
// `order` is the order of the bytes there.
template <typename S, typename Count>
__device__ __forceinline__ void visit_tile(const S* plane, const Tiling& t, u32 tile, u32 from, u32 to, u32 thread, u32 threads, Count count,
                                           u32 order = NATIVE) {
    typedef Pack<S, 1> P;
    constexpr int AT_ONCE = 4, PER_WORD = 4 / sizeof(S);
    const u32 left = tile % t.tiles_x * t.tile_width;
    const u32 top = tile / t.tiles_x * t.tile_height;
    const u32 inside = left < t.width ? min(t.tile_width, t.width - left) : 0;
    // Samples from the word's start to the plane's.
    const u32 skew = u32(reinterpret_cast<u64>(plane) % 16 / sizeof(S));
    const bool aligned = left % P::PIXELS == 0 && t.width % P::PIXELS == 0 && skew == 0;
    const u32 packs = max((inside + (aligned ? 1 : 2) * (P::PIXELS - 1)) / P::PIXELS, 1u);
    u32 row = from + thread / packs, column = thread % packs;
    const u32 rows_on = threads / packs, columns_on = threads % packs;
    while (inside && row < to) {
        P here[AT_ONCE];
        // The samples of a pack that belong to the tile: from `low` (possibly negative) to just
        // before `high`.
        int low[AT_ONCE], high[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            low[k] = high[k] = 0;
            if (row < to) {
                const u64 start = u64(reflected(top + row, t.height)) * t.width + left + skew;
                const u32 shift = u32(start % P::PIXELS);
                low[k] = int(shift) - int(column * P::PIXELS);
                high[k] = low[k] + int(inside);
                if (high[k] > 0) here[k].load(plane - skew, start / P::PIXELS + column, ~0ull);
            }
            row += rows_on, column += columns_on;
            if (column >= packs) column -= packs, ++row;
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            here[k].in_order(nullptr, order);
            if (low[k] <= 0 && high[k] >= P::PIXELS) {
#pragma unroll
                for (int p = 0; p < P::PIXELS; ++p) count(isolated<S>(here[k].word(p / PER_WORD), p % PER_WORD));
            } else if (high[k] > 0) {
#pragma unroll
                for (int p = 0; p < P::PIXELS; ++p) {
                    if (low[k] <= p && p < high[k]) count(here[k].get(p));
                }
            }
        }
    }
    const u32 outside = t.tile_width - inside;
    for (u32 i = thread; i < outside * (to - from); i += threads) {
        const u32 y = reflected(top + from + i / outside, t.height);
        const u32 x = reflected(left + inside + i % outside, t.width);
        count(converted<S>(plane[u64(y) * t.width + x], order));
    }
}

// Converts position `i` to tiles, measured from the middle of the first tile.
__device__ __forceinline__ float in_tiles(u32 i, float inverse) { return __fsub_rn(__fmul_rn(__uint2float_rn(i), inverse), 0.5f); }

// Rounds half to even, into the low bits: for 0 <= value < 2^16, adding 1.5 * 2^23 leaves no bits
// for a fraction.
__device__ __forceinline__ u32 rounded(float value) { return __float_as_uint(__fadd_rn(value, 12582912.0f)); }

// Whole numbers become 2^23 plus themselves, as floats, in one instruction: as the low bits of
// 2^23.
constexpr u32 WIDE = 0x4b000000;
template <typename S> __device__ __forceinline__ float wide(u32 word, int number) {
    return __uint_as_float(__byte_perm(word, WIDE, sizeof(S) == 1 ? 0x7440 + number : 0x7410 + 0x22 * number));
}

// The weights of a column, and -2^23 times these.
struct ColumnWeights {
    float a, b, minus_a, minus_b;

    __device__ __forceinline__ ColumnWeights() {}
    __device__ __forceinline__ explicit ColumnWeights(float a)
        : a(a), b(__fsub_rn(1.0f, a)), minus_a(-8388608.0f * a), minus_b(-8388608.0f * b) {}

    // Returns the weighted levels of the four neighbours, first along x, then along y, rounded.
    // They are given as `wide`: (2^23 + l) * w - 2^23 * w is l * w, which the fused operation
    // rounds once, like a product.
    __device__ __forceinline__ u32 between(float l00, float l01, float l10, float l11, float ya, float yb) const {
        const float upper = __fadd_rn(__fmaf_rn(l00, b, minus_b), __fmaf_rn(l01, a, minus_a));
        const float lower = __fadd_rn(__fmaf_rn(l10, b, minus_b), __fmaf_rn(l11, a, minus_a));
        return rounded(__fadd_rn(__fmul_rn(upper, yb), __fmul_rn(lower, ya)));
    }
};

// The two tiles around a position along one axis, and the weight of the second.
struct Between {
    u32 first, second;
    float a;

    __device__ __forceinline__ Between(u32 i, float inverse, u32 tiles) {
        const float at = in_tiles(i, inverse);
        const float low = floorf(at);
        a = __fsub_rn(at, low);
        // With millions of tiles, the last position may be rounded up to beyond the last one.
        first = u32(max(min(int(low), int(tiles) - 1), 0));
        second = u32(min(int(low) + 1, int(tiles) - 1));
    }
};

// For tiles that are too small for cells: each pixel looks up its level in the LUTs of the four
// tiles around it. A block takes 32 columns and `ROWS_A_BLOCK` rows, to find its LUT entries in the
// L1 cache again. Block: x = 32, y = rows. Grid: x, y.
constexpr u32 ROWS_A_BLOCK = 128;

template <typename S>
__device__ __forceinline__ void interpolate(const S* plane, S* result, ByteOrders orders, const Tiling& t, const S* luts, u32 strength) {
    constexpr int ROWS = 4;
    constexpr u32 L = levels<S>();
    const u32 column = blockIdx.x * WARP + threadIdx.x;
    if (column >= t.width) return;
    const Between x(column, t.inverse_width, t.tiles_x);
    const ColumnWeights weights(x.a);
    for (u64 top = u64(blockIdx.y) * ROWS_A_BLOCK; top < t.height; top += u64(gridDim.y) * ROWS_A_BLOCK) {
        const u32 bottom = u32(min(top + ROWS_A_BLOCK, u64(t.height)));
        for (u32 row = u32(top) + threadIdx.y; row < bottom; row += ROWS * blockDim.y) {
            const S* at = plane + u64(row) * t.width + column;
            S* to = result + u64(row) * t.width + column;
            const u64 step = u64(blockDim.y) * t.width;
            u32 level[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) level[r] = row + r * blockDim.y < bottom ? at[r * step] : 0;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const Between y(min(row + r * blockDim.y, bottom - 1), t.inverse_height, t.tiles_y);
                const u32 old = converted<S>(level[r], orders.from);
                const S* upper = luts + u64(y.first) * t.tiles_x * L + old;
                const S* lower = luts + u64(y.second) * t.tiles_x * L + old;
                auto entry = [](const S* row, u32 tile) { return wide<u16>(__ldg(row + u64(tile) * L), 0); };
                level[r] = weights.between(entry(upper, x.first), entry(upper, x.second), entry(lower, x.first), entry(lower, x.second), y.a,
                                           __fsub_rn(1.0f, y.a));
                if (strength != FULL_STRENGTH) level[r] = weakened(old, level[r] & (L - 1), strength);
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (row + r * blockDim.y < bottom) to[r * step] = S(converted<S>(level[r], orders.to));
            }
        }
    }
}

// Returns the first position in cell `cell`: where `in_tiles` reaches `cell - 1`. Rounding may move
// it from the exact position.
__device__ __forceinline__ u32 cell_start(u32 cell, u32 tile, float inverse, u32 size) {
    if (cell == 0) return 0;
    u32 at = u32(min(u64(cell - 1) * tile + (tile + 1) / 2, u64(size)));
    while (at > 0 && floorf(in_tiles(at - 1, inverse)) >= float(int(cell) - 1)) --at;
    while (at < size && floorf(in_tiles(at, inverse)) < float(int(cell) - 1)) ++at;
    return at;
}

// The pixels between the same four tile centres, or one of the `bands` of their rows. There are
// (tiles_x + 1) * (tiles_y + 1) cells.
struct Cell {
    u32 left, right, top, bottom;
    // The tiles, in their order in the picture.
    u32 tile[4];
    float low_x, low_y;

    // The four sides are found by four lanes of each warp and shuffled to all.
    __device__ __forceinline__ Cell(const Tiling& t, u32 number, u32 bands) {
        const u32 band = number % bands, cell = number / bands, lane = threadIdx.x % WARP;
        const u32 x = cell % (t.tiles_x + 1), y = cell / (t.tiles_x + 1);
        const u32 side = lane & 2 ? cell_start(y + (lane & 1), t.tile_height, t.inverse_height, t.height)
                                  : cell_start(x + (lane & 1), t.tile_width, t.inverse_width, t.width);
        left = __shfl_sync(FULL_WARP, side, 0), right = __shfl_sync(FULL_WARP, side, 1);
        const u32 first = __shfl_sync(FULL_WARP, side, 2), height = __shfl_sync(FULL_WARP, side, 3) - first;
        top = first + u32(u64(height) * band / bands), bottom = first + u32(u64(height) * (band + 1) / bands);
        const u32 x1 = max(x, 1u) - 1, x2 = min(x, t.tiles_x - 1);
        const u32 upper = (max(y, 1u) - 1) * t.tiles_x, lower = min(y, t.tiles_y - 1) * t.tiles_x;
        tile[0] = upper + x1, tile[1] = upper + x2, tile[2] = lower + x1, tile[3] = lower + x2;
        low_x = float(int(x) - 1), low_y = float(int(y) - 1);
    }
};

// Maps the pixels of a cell by a table of the new levels of each level in its tiles.
// `table.has(level)` is whether the pixel is to be mapped; `table.level(level, weights, ya, yb)` is
// its new level. `strength` is used if `WEAKENED`. Eight bytes of pixels are mapped at a time if
// the rows are aligned; the rest at the sides, or everything, one by one. A warp takes several rows
// of a narrow cell at a time. Block: x = 32.
template <bool WEAKENED, typename S, typename Table>
__device__ __forceinline__ void map_cell(const S* plane, S* result, ByteOrders orders, const Tiling& t, const Cell& cell, const Table& table,
                                         u32 strength) {
    constexpr int PIXELS = 8 / sizeof(S), PER_WORD = PIXELS / 2, ROWS = 2, SINGLE_ROWS = 4;
    auto mapped = [&](u32 old, const ColumnWeights& x, float ya) {
        const u32 level = table.level(old, x, ya, __fsub_rn(1.0f, ya));
        return WEAKENED && strength != FULL_STRENGTH ? weakened(old, level & (levels<S>() - 1), strength) : level;
    };
    auto weights = [&](u32 column) { return ColumnWeights(__fsub_rn(in_tiles(column, t.inverse_width), cell.low_x)); };
    auto below = [&](u32 row) { return __fsub_rn(in_tiles(row, t.inverse_height), cell.low_y); };
    const u32 lane = threadIdx.x;
    const bool aligned = t.width % PIXELS == 0 && (reinterpret_cast<u64>(plane) | reinterpret_cast<u64>(result)) % 8 == 0;
    const u32 word_left = aligned ? min((cell.left + PIXELS - 1) / PIXELS * PIXELS, cell.right) : cell.left;
    const u32 word_right = aligned ? max(cell.right / PIXELS * PIXELS, word_left) : cell.left;
    u32 lanes = WARP;
    while (lanes / 2 * PIXELS >= word_right - word_left && lanes > 1) lanes /= 2;
    const u32 rows_on = blockDim.y * (WARP / lanes);
    const u32 first_row = cell.top + threadIdx.y * (WARP / lanes) + lane / lanes;
    for (u32 column = word_left + PIXELS * (lane % lanes); column < word_right; column += PIXELS * lanes) {
        ColumnWeights x[PIXELS];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) x[p] = weights(column + p);
        for (u32 row = first_row; row < cell.bottom; row += ROWS * rows_on) {
            const S* at = plane + u64(row) * t.width + column;
            S* to = result + u64(row) * t.width + column;
            const u64 step = u64(rows_on) * t.width;
            uint2 words[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (row + r * rows_on < cell.bottom) words[r] = *reinterpret_cast<const uint2*>(at + r * step);
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (row + r * rows_on >= cell.bottom) break;
                const float ya = below(row + r * rows_on);
                words[r] = make_uint2(converted<S>(words[r].x, orders.from), converted<S>(words[r].y, orders.from));
                u32 level[PIXELS];
#pragma unroll
                for (int p = 0; p < PIXELS; ++p) {
                    const u32 old = isolated<S>(p < PER_WORD ? words[r].x : words[r].y, p % PER_WORD);
                    if (Table::WHOLE || table.has(old)) {
                        level[p] = mapped(old, x[p], ya);
                        if (!Table::WHOLE) to[r * step + p] = S(converted<S>(level[p], orders.to));
                    }
                }
                if (Table::WHOLE) {
                    *reinterpret_cast<uint2*>(to + r * step) =
                        make_uint2(converted<S>(joined<S>(level), orders.to), converted<S>(joined<S>(level + PER_WORD), orders.to));
                }
            }
        }
    }
    const u32 skipped = word_right - word_left;
    for (u32 i = cell.left + lane; i < cell.right - skipped; i += WARP) {
        const u32 column = i < word_left ? i : i + skipped;
        const ColumnWeights x = weights(column);
        for (u32 row = cell.top + threadIdx.y; row < cell.bottom; row += SINGLE_ROWS * blockDim.y) {
            const S* at = plane + u64(row) * t.width + column;
            S* to = result + u64(row) * t.width + column;
            const u64 step = u64(blockDim.y) * t.width;
            u32 level[SINGLE_ROWS];
#pragma unroll
            for (int r = 0; r < SINGLE_ROWS; ++r) level[r] = row + r * blockDim.y < cell.bottom ? at[r * step] : 0;
#pragma unroll
            for (int r = 0; r < SINGLE_ROWS; ++r) {
                const u32 old = converted<S>(level[r], orders.from);
                if (row + r * blockDim.y >= cell.bottom || (!Table::WHOLE && !table.has(old))) continue;
                to[r * step] = S(converted<S>(mapped(old, x, below(row + r * blockDim.y)), orders.to));
            }
        }
    }
}
