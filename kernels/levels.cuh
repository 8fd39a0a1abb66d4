// Counts to levels in exact integer arithmetic, and pixels through a LUT.

#pragma once
#include "common.cuh"

// Strengths are in thousandths.
constexpr u32 FULL_STRENGTH = 1000;

// Returns the level at this share of the way from `old` to `level`, halves up.
__device__ __forceinline__ u32 weakened(u32 old, u32 level, u32 strength) {
    return (old * (FULL_STRENGTH - strength) + level * strength + FULL_STRENGTH / 2) / FULL_STRENGTH;
}

template <typename S> __device__ __forceinline__ u32 clamped(int value) {
    return u32(min(max(value, 0), int(levels<S>() - 1)));
}

// Returns the entry of a level in the LUT of a plane.
template <typename S> __device__ __forceinline__ u32 looked_up(const S* luts, u32 plane, u32 level) { return luts[plane * levels<S>() + level]; }

// Sends the samples of one pixel through LUTs, one for each plane: gray; each colour; or, for luma,
// all three colours by the same step, which changes luma and keeps the chroma. Alpha is unchanged.
template <int CHANNELS, bool BY_CHANNEL, typename S, typename Lut>
__device__ __forceinline__ void map_pixel(const u32 (&in)[CHANNELS], u32 (&out)[CHANNELS], Lut lut) {
    if (has_alpha<CHANNELS>()) out[CHANNELS - 1] = in[CHANNELS - 1];
    if (colours<CHANNELS>() == 1) {
        out[0] = looked_up(lut, 0, in[0]);
    } else if (BY_CHANNEL) {
#pragma unroll
        for (int c = 0; c < 3; ++c) out[c] = looked_up(lut, c, in[c]);
    } else {
        const u32 y = luma(in[0], in[CHANNELS > 1 ? 1 : 0], in[CHANNELS > 2 ? 2 : 0]);
        const int step = int(looked_up(lut, 0, y)) - int(y);
#pragma unroll
        for (int c = 0; c < 3 && c < CHANNELS; ++c) out[c] = clamped<S>(int(in[c]) + step);
    }
}

template <int CHANNELS, bool BY_CHANNEL, typename S, typename Lut>
__device__ __forceinline__ void map_single(const S* from, S* to, Lut lut, ByteOrders orders = {}) {
    u32 in[CHANNELS], out[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) in[c] = converted<S>(from[c], orders.from);
    map_pixel<CHANNELS, BY_CHANNEL, S>(in, out, lut);
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) to[c] = S(converted<S>(out[c], orders.to));
}

// Joins the samples of a word, each below the number of levels.
template <typename S> __device__ __forceinline__ u32 joined(const u32* samples) {
    if (sizeof(S) == 2) return __byte_perm(samples[0], samples[1], 0x5410);
    return __byte_perm(__byte_perm(samples[0], samples[1], 0x0040), __byte_perm(samples[2], samples[3], 0x0040), 0x5410);
}

// Sends a pack with samples in pixel order through LUTs.
template <int CHANNELS, bool BY_CHANNEL, typename S, typename Lut>
__device__ __forceinline__ Pack<S, CHANNELS> map_pack(const Pack<S, CHANNELS>& from, Lut lut) {
    typedef Pack<S, CHANNELS> P;
    constexpr int PER_WORD = 4 / sizeof(S);
    u32 sample[P::PIXELS * CHANNELS];
#pragma unroll
    for (int p = 0; p < P::PIXELS; ++p) {
        u32 in[CHANNELS], out[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) in[c] = isolated<S>(from.word((p * CHANNELS + c) / PER_WORD), (p * CHANNELS + c) % PER_WORD);
        map_pixel<CHANNELS, BY_CHANNEL, S>(in, out, lut);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) sample[p * CHANNELS + c] = out[c];
    }
    P to;
#pragma unroll
    for (int w = 0; w < P::BYTES / 4; ++w) to.word(w) = joined<S>(sample + w * PER_WORD);
    return to;
}

// Copies `words` 16-byte words from global to shared memory, by the whole block.
__device__ __forceinline__ void share(const void* from, void* to, u32 words) {
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
    __syncthreads();
}
