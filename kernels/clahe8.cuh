// CLAHE of one plane, depth 8.

#pragma once
#include "clahe.cuh"

// Makes one LUT per tile. Grid: x = tiles * parts; the blocks of a tile share its rows, and the last to finish makes the LUT. `histograms`
// (256 counts per tile) and `arrived` (one per tile) are zero before and after.
__device__ __forceinline__ void tile_luts8(const u8* plane, const Tiling& t, u32 parts, u32* histograms, u32* arrived, u8* luts) {
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
    u32* histogram = histograms + 256ull * tile;
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
    if (bin < 256) luts[256ull * tile + bin] = u8(tile_level(running, t.lut_scale, 255));
}

// Returns the first position in cell `cell`: where `in_tiles` reaches `cell - 1`. Rounding may move it from the exact position.
__device__ __forceinline__ u32 cell_start(u32 cell, u32 tile, float inverse, u32 size) {
    if (cell == 0) return 0;
    u32 at = u32(min(u64(cell - 1) * tile + (tile + 1) / 2, u64(size)));
    while (at > 0 && floorf(in_tiles(at - 1, inverse)) >= float(int(cell) - 1)) --at;
    while (at < size && floorf(in_tiles(at, inverse)) < float(int(cell) - 1)) ++at;
    return at;
}

// The LUTs of a cell's four tiles, level by level: the upper halves of two `float`s per word, which suffice for 0 to 255.
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

// For tiles that are not small. A cell is the pixels between the same four tile middles; there the four LUTs are one table in shared
// memory. Block: x = 32, y = 8. Grid: x = (tiles_x + 1) * (tiles_y + 1) * bands; the blocks of a cell share its rows. `result` may be `plane`.
template <bool WEAKENED>
__device__ __forceinline__ void map_cells8(const u8* plane, u8* result, const Tiling& t, const u8* luts, u32 bands, u32 strength) {
    constexpr int ROWS = 4;
    __shared__ uint2 entries[256];
    const u32 band = blockIdx.x % bands, cell = blockIdx.x / bands;
    const u32 cell_x = cell % (t.tiles_x + 1), cell_y = cell / (t.tiles_x + 1);
    const u32 level = threadIdx.y * WARP + threadIdx.x;
    const u32 x1 = max(cell_x, 1u) - 1, x2 = min(cell_x, t.tiles_x - 1);
    const u8* upper = luts + u64(max(cell_y, 1u) - 1) * t.tiles_x * 256 + level;
    const u8* lower = luts + u64(min(cell_y, t.tiles_y - 1)) * t.tiles_x * 256 + level;
    const u32 l00 = upper[x1 * 256], l01 = upper[x2 * 256], l10 = lower[x1 * 256], l11 = lower[x2 * 256];

    // The cell's four sides, found by four lanes and shuffled to all.
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

    // Four pixels per word if the rows are aligned; the rest at the sides, or everything, one by one.
    const bool aligned = (t.width | reinterpret_cast<u64>(plane) | reinterpret_cast<u64>(result)) % 4 == 0;
    const u32 word_left = aligned ? min((left + 3) / 4 * 4, right) : left;
    const u32 word_right = aligned ? max(right / 4 * 4, word_left) : left;
    for (u32 column = word_left + 4 * threadIdx.x; column < word_right; column += 4 * WARP) {
        float xa[4], xb[4];
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            xa[p] = __fsub_rn(in_tiles(column + p, t.inverse_width), low_x);
            xb[p] = __fsub_rn(1.0f, xa[p]);
        }
        for (u32 row = top + threadIdx.y; row < bottom; row += ROWS * blockDim.y) {
            const u32* at = reinterpret_cast<const u32*>(plane + u64(row) * t.width + column);
            u32* to = reinterpret_cast<u32*>(result + u64(row) * t.width + column);
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
                for (int p = 0; p < 4; ++p) {
                    const u32 old = (words[r] >> (8 * p)) & 0xff;
                    level[p] = table.level(old, xa[p], xb[p], ya, yb);
                    if (WEAKENED) level[p] = weakened(old, level[p] & 0xff, strength);
                }
                words[r] = __byte_perm(__byte_perm(level[0], level[1], 0x0040), __byte_perm(level[2], level[3], 0x0040), 0x5410);
                if (row + r * blockDim.y < bottom) to[r * step] = words[r];
            }
        }
    }
    const u32 skipped = word_right - word_left;
    for (u32 i = left + threadIdx.x; i < right - skipped; i += WARP) {
        const u32 column = i < word_left ? i : i + skipped;
        const float xa = __fsub_rn(in_tiles(column, t.inverse_width), low_x);
        const float xb = __fsub_rn(1.0f, xa);
        for (u32 row = top + threadIdx.y; row < bottom; row += ROWS * blockDim.y) {
            const u8* at = plane + u64(row) * t.width + column;
            u8* to = result + u64(row) * t.width + column;
            const u64 step = u64(blockDim.y) * t.width;
            u32 level[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) level[r] = row + r * blockDim.y < bottom ? at[r * step] : 0;
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const float ya = __fsub_rn(in_tiles(row + r * blockDim.y, t.inverse_height), low_y);
                const float yb = __fsub_rn(1.0f, ya);
                u32 mapped = table.level(level[r], xa, xb, ya, yb);
                if (WEAKENED) mapped = weakened(level[r], mapped & 0xff, strength);
                if (row + r * blockDim.y < bottom) to[r * step] = u8(mapped);
            }
        }
    }
}
