// What CLAHE needs at both depths: tiles, clipping, interpolation. Like OpenCV's, for one plane.
//
// Products and sums use `__fmul_rn` and `__fadd_rn`, which the compiler may not contract into fused multiply-adds.

#pragma once
#include "counting.cuh"
#include "levels.cuh"

// The plane and its tiles. The tiles cover the plane and the padding by reflection, on the right and at the bottom, that makes them equal
// in size.
struct Tiling {
    u32 width, height;
    u32 tiles_x, tiles_y;
    u32 tile_width, tile_height;
    // The largest count of a bin; 0 for no limit.
    u32 clip;
    // (levels - 1) / (tile_width * tile_height), and 1 / tile_width, 1 / tile_height.
    float lut_scale, inverse_width, inverse_height;
};

// Maps a position beyond the edge into the picture: mirrored about the last pixel, which is not repeated (BORDER_REFLECT_101).
__device__ __forceinline__ u32 reflected(u32 i, u32 size) {
    if (i < size) return i;
    if (size == 1) return 0;
    i %= 2 * size - 2;
    return i < size ? i : 2 * size - 2 - i;
}

// Spreads what is clipped above `clip` evenly over all bins, and the remainder of that division over bins at equal steps. There is no
// second clipping.
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

// Calls `count(sample)` for all samples in rows `from` to `to` of a tile, by the whole block. Rows are read in aligned 16-byte words whose
// ends may belong to neighbours or lie before or behind the plane: its memory must be readable in whole words. `order`: that of the bytes
// there.
template <typename S, typename Count>
__device__ __forceinline__ void visit_tile(const S* plane, const Tiling& t, u32 tile, u32 from, u32 to, Count count,
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
    u32 row = from + threadIdx.x / packs, column = threadIdx.x % packs;
    const u32 rows_on = blockDim.x / packs, columns_on = blockDim.x % packs;
    while (inside && row < to) {
        P here[AT_ONCE];
        // The samples of a pack that belong to the tile: from `low` (possibly negative) to just before `high`.
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
    for (u32 i = threadIdx.x; i < outside * (to - from); i += blockDim.x) {
        const u32 y = reflected(top + from + i / outside, t.height);
        const u32 x = reflected(left + inside + i % outside, t.width);
        count(converted<S>(plane[u64(y) * t.width + x], order));
    }
}

// Converts position `i` to tiles, measured from the middle of the first tile.
__device__ __forceinline__ float in_tiles(u32 i, float inverse) { return __fsub_rn(__fmul_rn(__uint2float_rn(i), inverse), 0.5f); }

// Returns the weighted levels of the four neighbours: first along x, then along y.
__device__ __forceinline__ float between(float l00, float l01, float l10, float l11, float xa, float xb, float ya, float yb) {
    const float upper = __fadd_rn(__fmul_rn(l00, xb), __fmul_rn(l01, xa));
    const float lower = __fadd_rn(__fmul_rn(l10, xb), __fmul_rn(l11, xa));
    return __fadd_rn(__fmul_rn(upper, yb), __fmul_rn(lower, ya));
}

// Rounds half to even, into the low bits: for 0 <= value < 2^16, adding 1.5 * 2^23 leaves no bits for a fraction.
__device__ __forceinline__ u32 rounded(float value) { return __float_as_uint(__fadd_rn(value, 12582912.0f)); }

// The two tiles that a position lies between along one axis, and their weights.
struct Between {
    u32 first, second;
    // The cell between the middles of those tiles; cell 0 is before the first middle.
    u32 cell;
    float a, b;

    __device__ __forceinline__ Between(u32 i, float inverse, u32 tiles) {
        const float at = in_tiles(i, inverse);
        const float low = floorf(at);
        a = __fsub_rn(at, low);
        b = __fsub_rn(1.0f, a);
        // Where there are millions of tiles, the last position may be rounded up to beyond the last one.
        const int next = min(int(low) + 1, int(tiles));
        cell = u32(next);
        first = u32(max(min(int(low), int(tiles) - 1), 0));
        second = u32(min(next, int(tiles) - 1));
    }
};

// Maps levels by the tiles' own LUTs.
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

// A block takes 32 columns and `ROWS_A_BLOCK` rows, so that the LUT entries that it needs are found in the L1 cache again.
// Block: x = 32, y = rows. Grid: x, y.
constexpr u32 ROWS_A_BLOCK = 128;

template <typename S, typename Luts>
__device__ __forceinline__ void interpolate(const S* plane, S* result, const Tiling& t, const Luts& luts, ByteOrders orders = {},
                                            u32 strength = FULL_STRENGTH) {
    constexpr int ROWS = 4;
    const u32 column = blockIdx.x * WARP + threadIdx.x;
    if (column >= t.width) return;
    const Between x(column, t.inverse_width, t.tiles_x);
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
                level[r] = luts.level(t, x, y, old);
                if (strength != FULL_STRENGTH) level[r] = weakened(old, level[r] & (levels<S>() - 1), strength);
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (row + r * blockDim.y < bottom) to[r * step] = S(converted<S>(level[r], orders.to));
            }
        }
    }
}
