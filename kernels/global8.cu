// Global equalization, depth 8. Two launches, so that a picture may come in chunks. Blocks: `block_threads` at most, whole warps.

#include "counting.cuh"
#include "levels.cuh"

// Adds to what is in `histograms`. `next`: null, or the histograms of the next picture, which are zeroed.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void histogram8(const u8* pixels, u64 count, u32* histograms, u32* next) {
    typedef Counters8<CHANNELS, BY_CHANNEL> Counters;
    typedef typename Counters::P P;
    __shared__ __align__(16) u32 words[Counters::SIZE];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const Counters counters = {words};
    const u64 packs = whole_packs<u8, CHANNELS>(pixels, count);
    const u64 stride = threads_of_grid();
    const u64 end = rounds_of_grid(packs) * stride;
    P ahead;
    ahead.load(pixels, thread_of_grid(), packs);
    counters.clear();
    for (u64 i = thread_of_grid(); i < end; i += stride) {
        P here = ahead;
        ahead.load(pixels, i + stride, packs);
        here.in_order(stage);
        if (i < packs) counters.add(here);
    }
    counters.add_singles(pixels, packs * P::PIXELS, count);
    counters.add_to(histograms);
    if (next && blockIdx.x == 0) {
        for (u32 i = threadIdx.x; i < 3 * 256; i += blockDim.x) next[i] = 0;
    }
}

// Each block, of 256 threads at least, makes the LUTs by itself, which takes no longer than to read them, while its first packs are on
// their way.
template <int CHANNELS, bool BY_CHANNEL> __device__ __forceinline__ void apply8(u8* pixels, u64 count, const u32* histograms) {
    typedef Pack<u8, CHANNELS> P;
    constexpr u32 LEVELS = (BY_CHANNEL ? 3 : 1) * 256;
    __shared__ u8 luts[LEVELS];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const u64 packs = whole_packs<u8, CHANNELS>(pixels, count), rounds = rounds_of_grid(packs);
    const u64 before = rounds ? rounds - 1 : 0, last = before * threads_of_grid() + thread_of_grid();
    P first;
    first.load(pixels, last, packs, true);
#pragma unroll 1
    for (u32 plane = 0; plane < LEVELS; plane += 256) {
        const u32 i = threadIdx.x;
        const u32 level = equalized_level8(i < 256 ? histograms[plane + i] : 0);
        if (i < 256) luts[plane + i] = u8(level);
    }
    __syncthreads();
    equalized_pack<CHANNELS, BY_CHANNEL>(first, luts, stage).store(pixels, last, packs);
    apply<CHANNELS, BY_CHANNEL, 1>(pixels, count, before, luts, stage);
}

#define GLOBAL8(NAME, CHANNELS, BY_CHANNEL)                                                                                  \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        histogram8_##NAME(const u8* pixels, u64 count, u32* histograms, u32* next) {                                         \
        histogram8<CHANNELS, BY_CHANNEL>(pixels, count, histograms, next);                                                   \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>(), 1024 / block_threads<CHANNELS>())                \
        apply8_##NAME(u8* pixels, u64 count, const u32* histograms) {                                                        \
        apply8<CHANNELS, BY_CHANNEL>(pixels, count, histograms);                                                             \
    }
GLOBAL8(gray, 1, false)
GLOBAL8(gray_alpha, 2, false)
GLOBAL8(rgb_luma, 3, false)
GLOBAL8(rgb_channels, 3, true)
GLOBAL8(rgba_luma, 4, false)
GLOBAL8(rgba_channels, 4, true)
