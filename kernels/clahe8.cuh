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

// The levels that a cell's four tiles make of each level, a byte each, in copies interleaved by lane so that fewer lanes access the same bank.
struct CellTable {
    static constexpr u32 COPIES = 8;
    static constexpr u32 WORDS = 256 * COPIES;
    // Bytes become floats in one instruction, as the low bits of 2^23.
    static constexpr u32 FLOAT = 0x4b000000;

    u32* words;
    u32 copy;  // the place of this lane's copy, in bytes

    __device__ __forceinline__ explicit CellTable(u32* words) : words(words), copy(threadIdx.x % COPIES * 4) {}
    __device__ __forceinline__ void set(u32 level, u32 l00, u32 l01, u32 l10, u32 l11) const {
        const u32 word = l00 | l01 << 8 | l10 << 16 | l11 << 24;
#pragma unroll
        for (u32 i = 0; i < COPIES / 4; ++i) {
            reinterpret_cast<uint4*>(words)[level * (COPIES / 4) + i] = make_uint4(word, word, word, word);
        }
    }
    __device__ __forceinline__ u32 operator[](u32 level) const {
        u32 at;
        asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(level), "n"(COPIES * 4), "r"(copy));
        return *reinterpret_cast<const u32*>(reinterpret_cast<const u8*>(words) + at);
    }
};

// The weights of a column, and -2^23 times these.
struct ColumnWeights {
    float a, b, minus_a, minus_b;

    __device__ __forceinline__ ColumnWeights() {}
    __device__ __forceinline__ ColumnWeights(u32 column, float inverse, float low)
        : a(__fsub_rn(in_tiles(column, inverse), low)), b(__fsub_rn(1.0f, a)), minus_a(-8388608.0f * a), minus_b(-8388608.0f * b) {}

    // `between` of the four levels in a word. (2^23 + l) * w - 2^23 * w is l * w, which the fused operation rounds once, like a product.
    __device__ __forceinline__ u32 between(u32 word, float ya, float yb) const {
        auto wide = [=](u32 selector) { return __uint_as_float(__byte_perm(word, CellTable::FLOAT, selector)); };
        const float upper = __fadd_rn(__fmaf_rn(wide(0x7440), b, minus_b), __fmaf_rn(wide(0x7441), a, minus_a));
        const float lower = __fadd_rn(__fmaf_rn(wide(0x7442), b, minus_b), __fmaf_rn(wide(0x7443), a, minus_a));
        return rounded(__fadd_rn(__fmul_rn(upper, yb), __fmul_rn(lower, ya)));
    }
};

// For tiles that are not small. A cell is the pixels between the same four tile middles; there the four LUTs are one table in shared
// memory. Block: x = 32, y = 8. Grid: x = (tiles_x + 1) * (tiles_y + 1) * bands; the blocks of a cell share its rows. `result` may be `plane`.
template <bool WEAKENED>
__device__ __forceinline__ void map_cells8(const u8* plane, u8* result, const Tiling& t, const u8* luts, u32 bands, u32 strength) {
    // Pixels of a word, and words of a thread at a time, in as many rows.
    constexpr int PIXELS = 8, ROWS = 2;
    __shared__ __align__(16) u32 words_of_table[CellTable::WORDS];
    const CellTable table(words_of_table);
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
    table.set(level, l00, l01, l10, l11);
    __syncthreads();
    auto mapped = [&](u32 old, const ColumnWeights& x, float ya, float yb) {
        const u32 level = x.between(table[old], ya, yb);
        return WEAKENED ? weakened(old, level & 0xff, strength) : level;
    };

    // Eight pixels per word if the rows are aligned; the rest at the sides, or everything, one by one. A warp takes several rows of a narrow
    // cell at a time.
    const bool aligned = (t.width | reinterpret_cast<u64>(plane) | reinterpret_cast<u64>(result)) % PIXELS == 0;
    const u32 word_left = aligned ? min((left + PIXELS - 1) / PIXELS * PIXELS, right) : left;
    const u32 word_right = aligned ? max(right / PIXELS * PIXELS, word_left) : left;
    u32 lanes = WARP;
    while (lanes / 2 * PIXELS >= word_right - word_left && lanes > 1) lanes /= 2;
    const u32 rows_on = blockDim.y * (WARP / lanes);
    const u32 first_row = top + threadIdx.y * (WARP / lanes) + lane / lanes;
    for (u32 column = word_left + PIXELS * (lane % lanes); column < word_right; column += PIXELS * lanes) {
        ColumnWeights x[PIXELS];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) x[p] = ColumnWeights(column + p, t.inverse_width, low_x);
        for (u32 row = first_row; row < bottom; row += ROWS * rows_on) {
            const u8* at = plane + u64(row) * t.width + column;
            u8* to = result + u64(row) * t.width + column;
            const u64 step = u64(rows_on) * t.width;
            uint2 words[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (row + r * rows_on < bottom) words[r] = *reinterpret_cast<const uint2*>(at + r * step);
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (row + r * rows_on >= bottom) break;
                const float ya = __fsub_rn(in_tiles(row + r * rows_on, t.inverse_height), low_y);
                const float yb = __fsub_rn(1.0f, ya);
                u32 level[PIXELS];
#pragma unroll
                for (int p = 0; p < PIXELS; ++p) level[p] = mapped(isolated<u8>(p < 4 ? words[r].x : words[r].y, p % 4), x[p], ya, yb);
                *reinterpret_cast<uint2*>(to + r * step) =
                    make_uint2(__byte_perm(__byte_perm(level[0], level[1], 0x0040), __byte_perm(level[2], level[3], 0x0040), 0x5410),
                               __byte_perm(__byte_perm(level[4], level[5], 0x0040), __byte_perm(level[6], level[7], 0x0040), 0x5410));
            }
        }
    }
    const u32 skipped = word_right - word_left;
    for (u32 i = left + threadIdx.x; i < right - skipped; i += WARP) {
        const u32 column = i < word_left ? i : i + skipped;
        const ColumnWeights x(column, t.inverse_width, low_x);
        for (u32 row = top + threadIdx.y; row < bottom; row += 4 * blockDim.y) {
            const u8* at = plane + u64(row) * t.width + column;
            u8* to = result + u64(row) * t.width + column;
            const u64 step = u64(blockDim.y) * t.width;
            u32 level[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) level[r] = row + r * blockDim.y < bottom ? at[r * step] : 0;
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float ya = __fsub_rn(in_tiles(row + r * blockDim.y, t.inverse_height), low_y);
                if (row + r * blockDim.y < bottom) to[r * step] = u8(mapped(level[r], x, ya, __fsub_rn(1.0f, ya)));
            }
        }
    }
}
