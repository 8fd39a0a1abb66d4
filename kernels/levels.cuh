// Counts to levels in exact integer arithmetic, and pixels through a LUT.

#pragma once
#include "common.cuh"

// Returns the level that level `i` maps to, given the histogram's running sum up to and including `i`: the textbook's
// round((c - c_min) / (N - c_min) * (L - 1)), halves up. `first`: the count of the lowest level that occurs (c_min).
// A constant picture stays as it is.
__device__ __forceinline__ u32 equalized_level(u32 i, u32 running, u32 first, u32 total, u32 top) {
    const u64 spread = total - first;
    if (spread == 0) return i;
    if (running <= first) return 0;
    return u32((2 * u64(running - first) * top + spread) / (2 * spread));
}

// Strengths are in thousandths.
constexpr u32 FULL_STRENGTH = 1000;

// Returns the level at this share of the way from `old` to `level`, halves up.
__device__ __forceinline__ u32 weakened(u32 old, u32 level, u32 strength) {
    return (old * (FULL_STRENGTH - strength) + level * strength + FULL_STRENGTH / 2) / FULL_STRENGTH;
}

// Depth 8: thread `i` < 256 passes the count of level `i` and gets the level that it maps to. Called by all threads of the block.
__device__ __forceinline__ u32 equalized_level8(u32 count, u32 strength) {
    __shared__ u32 scratch[WARP];
    __shared__ u32 first, total;
    const u32 i = threadIdx.x;
    __syncthreads();  // the values of the previous call have been read
    if (i == 0) first = 0;
    const u32 running = block_scan(i < 256 ? count : 0, scratch);
    if (i < 256 && count && running == count) first = count;
    if (i == 255) total = running;
    __syncthreads();
    return weakened(i, equalized_level(i, running, first, total, 255), strength);
}

template <typename S> __device__ __forceinline__ u32 clamped(int value) {
    return u32(min(max(value, 0), int(levels<S>() - 1)));
}

// Sends one pixel through the LUTs: gray; each colour through its own LUT; or, for luma, all three colours by the same step, which changes
// luma and keeps the chroma. Alpha is unchanged.
template <int CHANNELS, bool BY_CHANNEL, typename S>
__device__ __forceinline__ void equalized_pixel(const u32 (&in)[CHANNELS], u32 (&out)[CHANNELS], const S* lut) {
    if (has_alpha<CHANNELS>()) out[CHANNELS - 1] = in[CHANNELS - 1];
    if (colours<CHANNELS>() == 1) {
        out[0] = lut[in[0]];
    } else if (BY_CHANNEL) {
#pragma unroll
        for (int c = 0; c < 3; ++c) out[c] = lut[c * levels<S>() + in[c]];
    } else {
        const u32 y = luma(in[0], in[1], in[2]);
        const int step = int(lut[y]) - int(y);
#pragma unroll
        for (int c = 0; c < 3; ++c) out[c] = clamped<S>(int(in[c]) + step);
    }
}

// Sends a raw pack through the LUTs; returns it raw.
template <int CHANNELS, bool BY_CHANNEL, typename S>
__device__ __forceinline__ Pack<S, CHANNELS> equalized_pack(Pack<S, CHANNELS> from, const S* lut, uint4* stage,
                                                            ByteOrders orders = {}) {
    typedef Pack<S, CHANNELS> P;
    from.in_order(stage, orders.from);
    P to;
#pragma unroll
    for (int p = 0; p < P::PIXELS; ++p) {
        u32 in[CHANNELS], out[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) in[c] = from.get(p * CHANNELS + c);
        equalized_pixel<CHANNELS, BY_CHANNEL>(in, out, lut);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) to.put(p * CHANNELS + c, out[c]);
    }
    to.in_lines(stage, orders.to);
    return to;
}

// Sends the pixels from `from` on, which are not in packs, through the LUTs, over the whole grid.
template <int CHANNELS, bool BY_CHANNEL, typename S>
__device__ __forceinline__ void apply_singles(S* pixels, u64 from, u64 count, const S* lut, ByteOrders orders = {}) {
    for (u64 i = from + thread_of_grid(); i < count; i += threads_of_grid()) {
        S* pixel = pixels + i * CHANNELS;
        u32 in[CHANNELS], out[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) in[c] = converted<S>(pixel[c], orders.from);
        equalized_pixel<CHANNELS, BY_CHANNEL>(in, out, lut);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) pixel[c] = S(converted<S>(out[c], orders.to));
    }
}

// Sends pixels through the LUTs in place, from the end to the beginning: the histogram has read the end last, so that is what the L2 cache
// still holds. Covers the packs of the grid's first `rounds` and the pixels that are not in packs. `AT_ONCE`: loads in flight at a time.
template <int CHANNELS, bool BY_CHANNEL, int AT_ONCE, typename S>
__device__ __forceinline__ void apply(S* pixels, u64 count, u64 rounds, const S* lut, uint4* stage, ByteOrders orders = {}) {
    typedef Pack<S, CHANNELS> P;
    const u64 packs = whole_packs<S, CHANNELS>(pixels, count);
    const u64 stride = threads_of_grid();
    apply_singles<CHANNELS, BY_CHANNEL>(pixels, packs * P::PIXELS, count, lut, orders);
    for (u64 round = rounds; round > 0;) {
        P here[AT_ONCE];
        const u64 now = min(round, u64(AT_ONCE));
        round -= now;
        const u64 first = round * stride + thread_of_grid();
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (k < now) here[k].load(pixels, first + k * stride, packs, true);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (k < now) equalized_pack<CHANNELS, BY_CHANNEL>(here[k], lut, stage, orders).store(pixels, first + k * stride, packs);
        }
    }
}

template <int CHANNELS, bool BY_CHANNEL, int AT_ONCE, typename S>
__device__ __forceinline__ void apply(S* pixels, u64 count, const S* lut, uint4* stage, ByteOrders orders = {}) {
    const u64 rounds = rounds_of_grid(whole_packs<S, CHANNELS>(pixels, count));
    apply<CHANNELS, BY_CHANNEL, AT_ONCE>(pixels, count, rounds, lut, stage, orders);
}

// Copies `words` 16-byte words from global to shared memory, by the whole block.
__device__ __forceinline__ void share(const void* from, void* to, u32 words) {
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
    __syncthreads();
}
