// Histogram, LUT and apply in one launch, for GPUs that can launch cooperatively: all blocks run at once and may wait for
// each other. A part of the picture stays in registers between the two passes, the rest most likely in the L2 cache.

#pragma once
#include "apply.cu"
#include "histogram.cu"

// Sums of one launch. There are two: each launch uses one and zeroes the other, which the launch before it has used.
struct Sums {
    u32 histograms[768];
    u32 arrived;
};

// Waits until every block of the grid has come here. What they wrote before is then seen by all.
__device__ __forceinline__ void wait_for_grid(u32* arrived) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (*static_cast<volatile u32*>(arrived) < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
}

// `KEPT`: how many packs of a thread stay in registers.
template <int CHANNELS, bool BY_CHANNEL, int KEPT>
__device__ __forceinline__ void equalize8(u8* pixels, u64 count, Sums* sums, u32 turn) {
    typedef Counters8<CHANNELS, BY_CHANNEL> Counters;
    typedef typename Counters::P P;
    __shared__ __align__(16) u32 words[Counters::SIZE];
    __shared__ u8 lut[Counters::PLANES * 256];
    Sums* const mine = sums + turn;
    if (blockIdx.x == 0) {
        for (u32 i = threadIdx.x; i < sizeof(Sums) / sizeof(u32); i += blockDim.x) reinterpret_cast<u32*>(sums + (1 - turn))[i] = 0;
    }
    const Counters counters = {words};
    counters.clear();

    const u64 packs = whole_packs<u8, CHANNELS>(pixels, count);
    const u64 stride = threads_of_grid();
    const u64 rounds = (packs + stride - 1) / stride;
    const u64 kept_from = (rounds > KEPT ? rounds - KEPT : 0) * stride + thread_of_grid();
#pragma unroll 2
    for (u64 i = thread_of_grid(); i < kept_from; i += stride) counters.add(P::load(pixels, i));
    P kept[KEPT];
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        if (kept_from + k * stride < packs) kept[k] = P::load(pixels, kept_from + k * stride);
    }
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        if (kept_from + k * stride < packs) counters.add(kept[k]);
    }
    counters.add_singles(pixels, packs * P::PIXELS, count);
    counters.add_to(mine->histograms);
    wait_for_grid(&mine->arrived);

#pragma unroll 1
    for (int plane = 0; plane < Counters::PLANES; ++plane) {
        const u32 i = threadIdx.x;
        const u32 level = equalized_level8(i < 256 ? __ldcg(mine->histograms + plane * 256 + i) : 0);
        if (i < 256) lut[plane * 256 + i] = u8(level);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        const u64 i = kept_from + k * stride;
        if (i < packs) equalized_pack<CHANNELS, BY_CHANNEL, u8>(kept[k], lut).store(pixels, i);
    }
    for (u64 i = kept_from; i >= stride; ) {
        i -= stride;
        equalized_pack<CHANNELS, BY_CHANNEL, u8>(P::load(pixels, i), lut).store(pixels, i);
    }
    apply_singles<CHANNELS, BY_CHANNEL, u8>(pixels, packs * P::PIXELS, count, lut);
}

#ifndef FUSED_THREADS
#define FUSED_THREADS 512
#endif
#ifndef FUSED_KEPT
#define FUSED_KEPT 6
#endif
#define EQUALIZE8(NAME, CHANNELS, BY_CHANNEL, KEPT)                                                                          \
    extern "C" __global__ void __launch_bounds__(FUSED_THREADS, 1024 / FUSED_THREADS)                                                        \
        equalize8_##NAME(u8* pixels, u64 count, Sums* sums, u32 turn) {                                                      \
        equalize8<CHANNELS, BY_CHANNEL, KEPT>(pixels, count, sums, turn);                                                    \
    }
EQUALIZE8(gray, 1, false, FUSED_KEPT)
EQUALIZE8(rgb_luma, 3, false, FUSED_KEPT / 3)
