// CLAHE of batches of planes, depth 16. What a picture has in `luts` follows that of the picture before it.

#include "batch.cuh"
#include "clahe16.cuh"
#include "clahe8.cuh"

// What is done to the tiles of a picture, and the levels that occur in it.
struct Clipping {
    u32 clip, spread_from, spread;
    u32 lowest, highest;
};

// Finds the levels that occur in each picture, and the clipping that follows: `clip`, over all levels, or if that is `AUTO` one that depends on
// the levels (see `Clipping::of_levels` in `crates/equalize/src/clip.rs`). Grid: x = blocks that share a picture, y = pictures.
// `occurs`: 2048 words of bits for each picture, and `arrived` one; both are zero before.
constexpr u32 AUTO = ~0u;
extern "C" __global__ void __launch_bounds__(1024)
    batch_clippings16(Pictures pictures, u32 clip, u64 area, u32* occurs, u32* arrived, Clipping* clippings) {
    typedef Pack<u16, 1> P;
    __shared__ u32 bits[2048];
    __shared__ u32 scratch[WARP];
    __shared__ u32 ends[2];
    for (u32 i = threadIdx.x; i < 2048; i += blockDim.x) bits[i] = 0;
    if (threadIdx.x == 0) ends[0] = 65535, ends[1] = 0;
    __syncthreads();
    auto mark = [&](u32 level) {
        const u32 bit = 1u << level % 32;
        if ((*reinterpret_cast<volatile u32*>(bits + level / 32) & bit) == 0) atomicOr(bits + level / 32, bit);
    };
    const u16* pixels = pictures.source<u16>(blockIdx.y);
    const Run<u16, 1> run(pixels, pixels, pictures.pixels);
    const u64 step = threads_of_grid();
    for (u64 i = thread_of_grid(); i < run.packs; i += 2 * step) {
        P here[2];
        here[0].load(pixels + run.head, i, run.packs);
        here[1].load(pixels + run.head, i + step, run.packs);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            if (i + k * step >= run.packs) break;
#pragma unroll
            for (int p = 0; p < P::PIXELS; ++p) mark(here[k].get(p));
        }
    }
    for (u64 k = thread_of_grid(); k < run.singles(); k += step) mark(pixels[run.single(k)]);
    __syncthreads();
    u32* all = occurs + blockIdx.y * 2048;
    for (u32 i = threadIdx.x; i < 2048; i += blockDim.x) {
        if (bits[i] & ~__ldcg(all + i)) atomicOr(all + i, bits[i]);
    }
    if (!last_of(gridDim.x, arrived + blockIdx.y)) return;
    u32 number = 0;
    for (u32 i = threadIdx.x; i < 2048; i += blockDim.x) {
        const u32 word = __ldcg(all + i);
        if (word == 0) continue;
        number += __popc(word);
        atomicMin(ends, i * 32 + __ffs(word) - 1);
        atomicMax(ends + 1, i * 32 + 31 - __clz(word));
    }
    number = block_sum(number, scratch);
    if (threadIdx.x) return;
    Clipping c = {clip, 0, 65536, ends[0], ends[1]};
    if (clip == AUTO) {
        c.clip = u32(min(max(2 * area / max(number, 256u), u64(1)), u64(~0u)));
        c.spread_from = c.lowest + 1, c.spread = c.highest - c.lowest;
    }
    clippings[blockIdx.y] = c;
}

// Makes one LUT per tile of each picture. A picture of one level, of which the clipping says nothing, keeps it. Grid: x = blocks that take tile
// after tile.
extern "C" __global__ void __launch_bounds__(1024) batch_tiles16(
    Pictures pictures, u32 number, Tiling t, const Clipping* clippings, u32 capacity, u32* spill, u16* luts) {
    const TileLuts16 of_block = {capacity, spill + 65536ull * blockIdx.x};
    const u32 tiles = t.tiles_x * t.tiles_y;
    for (u32 i = blockIdx.x; i < tiles * number; i += gridDim.x) {
        const Clipping c = clippings[i / tiles];
        u16* lut = luts + 65536ull * i;
        if (c.spread == 0) {
            if (threadIdx.x == 0) lut[c.lowest] = u16(c.lowest);
            continue;
        }
        Tiling clipped = t;
        clipped.clip = c.clip;
        of_block.make(pictures.source<u16>(i / tiles), clipped, NATIVE, i % tiles, c.spread_from, c.spread, (c.highest / 4096 + 1) * 4096, lut);
    }
}

// For tiles that are not small: as `map_cells8`, but the four LUTs of a cell are in shared memory as far as there is room, `capacity` entries,
// and the cell is gone through again for the levels beyond. `result` must not be the pictures themselves. Block: x = 32, y = 32. Grid:
// x = cells * bands, y = pictures.
extern "C" __global__ void __launch_bounds__(1024, 1) batch_cells16(
    Pictures pictures, Tiling t, const Clipping* clippings, const u16* luts, u32 bands, u32 capacity, u32 strength) {
    constexpr int ROWS = 2;
    extern __shared__ uint2 entries16[];
    const Clipping c = clippings[blockIdx.y];
    const u16* plane = pictures.source<u16>(blockIdx.y);
    u16* result = pictures.target<u16>(blockIdx.y);
    luts += u64(blockIdx.y) * t.tiles_x * t.tiles_y * 65536;
    const u32 band = blockIdx.x % bands, cell = blockIdx.x / bands;
    const u32 cell_x = cell % (t.tiles_x + 1), cell_y = cell / (t.tiles_x + 1);
    const u32 thread = threadIdx.y * WARP + threadIdx.x;
    const u32 x1 = max(cell_x, 1u) - 1, x2 = min(cell_x, t.tiles_x - 1);
    const u16* upper = luts + u64(max(cell_y, 1u) - 1) * t.tiles_x * 65536;
    const u16* lower = luts + u64(min(cell_y, t.tiles_y - 1)) * t.tiles_x * 65536;

    const u32 lane = threadIdx.x;
    const u32 side = lane & 2 ? cell_start(cell_y + (lane & 1), t.tile_height, t.inverse_height, t.height)
                              : cell_start(cell_x + (lane & 1), t.tile_width, t.inverse_width, t.width);
    const u32 left = __shfl_sync(FULL_WARP, side, 0), right = __shfl_sync(FULL_WARP, side, 1);
    const u32 cell_top = __shfl_sync(FULL_WARP, side, 2), height = __shfl_sync(FULL_WARP, side, 3) - cell_top;
    const u32 top = cell_top + u32(u64(height) * band / bands), bottom = cell_top + u32(u64(height) * (band + 1) / bands);
    const float low_x = float(int(cell_x) - 1), low_y = float(int(cell_y) - 1);
    const bool aligned = t.width % 4 == 0 && (reinterpret_cast<u64>(plane) | reinterpret_cast<u64>(result)) % 8 == 0;
    const u32 word_left = aligned ? min((left + 3) / 4 * 4, right) : left;
    const u32 word_right = aligned ? max(right / 4 * 4, word_left) : left;
    const u32 skipped = word_right - word_left;
    const bool whole = c.highest - (c.lowest & ~1u) < capacity;
    auto mapped = [&](u32 at, u32 old, float xa, float xb, float ya, float yb) {
        const uint2 e = entries16[at];
        const u32 level = rounded(between(__uint2float_rn(e.x & 0xffff), __uint2float_rn(e.x >> 16), __uint2float_rn(e.y & 0xffff),
                                          __uint2float_rn(e.y >> 16), xa, xb, ya, yb)) & 0xffff;
        return strength == FULL_STRENGTH ? level : weakened(old, level, strength);
    };
    // Two levels at a time: `lowest` is even, and so is `capacity`.
    for (u32 lowest = c.lowest & ~1u; lowest <= c.highest; lowest += capacity) {
        const u32 levels = min(capacity, c.highest - lowest + 1);
        __syncthreads();
        for (u32 i = thread; i < (levels + 1) / 2; i += WARP * blockDim.y) {
            const u32 pair = lowest / 2 + i;
            const u32 l00 = reinterpret_cast<const u32*>(upper + x1 * 65536)[pair], l01 = reinterpret_cast<const u32*>(upper + x2 * 65536)[pair];
            const u32 l10 = reinterpret_cast<const u32*>(lower + x1 * 65536)[pair], l11 = reinterpret_cast<const u32*>(lower + x2 * 65536)[pair];
            reinterpret_cast<uint4*>(entries16)[i] = make_uint4(__byte_perm(l00, l01, 0x5410), __byte_perm(l10, l11, 0x5410),
                                                                __byte_perm(l00, l01, 0x7632), __byte_perm(l10, l11, 0x7632));
        }
        __syncthreads();
        for (u32 column = word_left + 4 * threadIdx.x; column < word_right; column += 4 * WARP) {
            float xa[4], xb[4];
#pragma unroll
            for (int p = 0; p < 4; ++p) {
                xa[p] = __fsub_rn(in_tiles(column + p, t.inverse_width), low_x);
                xb[p] = __fsub_rn(1.0f, xa[p]);
            }
            for (u32 row = top + threadIdx.y; row < bottom; row += ROWS * blockDim.y) {
                const u16* at = plane + u64(row) * t.width + column;
                u16* to = result + u64(row) * t.width + column;
                const u64 step = u64(blockDim.y) * t.width;
                uint2 words[ROWS];
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    if (row + r * blockDim.y < bottom) words[r] = *reinterpret_cast<const uint2*>(at + r * step);
                }
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    if (row + r * blockDim.y >= bottom) break;
                    const float ya = __fsub_rn(in_tiles(row + r * blockDim.y, t.inverse_height), low_y);
                    const float yb = __fsub_rn(1.0f, ya);
                    u32 old[4];
#pragma unroll
                    for (int p = 0; p < 4; ++p) old[p] = isolated<u16>(p < 2 ? words[r].x : words[r].y, p % 2);
                    if (whole) {
                        u32 level[4];
#pragma unroll
                        for (int p = 0; p < 4; ++p) level[p] = mapped(old[p] - lowest, old[p], xa[p], xb[p], ya, yb);
                        *reinterpret_cast<uint2*>(to + r * step) = make_uint2(joined<u16>(level), joined<u16>(level + 2));
                    } else {
#pragma unroll
                        for (int p = 0; p < 4; ++p) {
                            const u32 place = old[p] - lowest;
                            if (place < levels) to[r * step + p] = u16(mapped(place, old[p], xa[p], xb[p], ya, yb));
                        }
                    }
                }
            }
        }
        for (u32 i = left + threadIdx.x; i < right - skipped; i += WARP) {
            const u32 column = i < word_left ? i : i + skipped;
            const float xa = __fsub_rn(in_tiles(column, t.inverse_width), low_x);
            const float xb = __fsub_rn(1.0f, xa);
            for (u32 row = top + threadIdx.y; row < bottom; row += blockDim.y) {
                const float ya = __fsub_rn(in_tiles(row, t.inverse_height), low_y);
                const u32 old = plane[u64(row) * t.width + column], place = old - lowest;
                if (place < levels) result[u64(row) * t.width + column] = u16(mapped(place, old, xa, xb, ya, __fsub_rn(1.0f, ya)));
            }
        }
    }
}

// Grid: as for `interpolate`, z = pictures.
extern "C" __global__ void __launch_bounds__(256, 8) batch_direct16(Pictures pictures, Tiling t, const u16* luts, u32 strength) {
    luts += u64(blockIdx.z) * t.tiles_x * t.tiles_y * 65536;
    interpolate(pictures.source<u16>(blockIdx.z), pictures.target<u16>(blockIdx.z), t, TileLuts<u16>{luts}, ByteOrders{}, strength);
}
