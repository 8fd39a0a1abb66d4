// LUTs applied in place, and what CLAHE needs to work on one plane of an interleaved picture.

#pragma once
#include "common.cuh"

template <typename S> __device__ __forceinline__ u32 clamped(int value) {
    return u32(min(max(value, 0), int(levels<S>() - 1)));
}

// One pixel through the LUTs: its gray; each colour its own LUT; or, for luma, the same step for all three, which changes the
// luma and keeps the chroma. Alpha stays.
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

template <int CHANNELS, bool BY_CHANNEL, typename S>
__device__ __forceinline__ Pack<S, CHANNELS> equalized_pack(const Pack<S, CHANNELS>& from, const S* lut) {
    typedef Pack<S, CHANNELS> P;
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
    return to;
}

// The grid's pixels from `from` on that are not in packs.
template <int CHANNELS, bool BY_CHANNEL, typename S>
__device__ __forceinline__ void apply_singles(S* pixels, u64 from, u64 count, const S* lut) {
    for (u64 i = from + thread_of_grid(); i < count; i += threads_of_grid()) {
        S* pixel = pixels + i * CHANNELS;
        u32 in[CHANNELS], out[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) in[c] = pixel[c];
        equalized_pixel<CHANNELS, BY_CHANNEL>(in, out, lut);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) pixel[c] = S(out[c]);
    }
}

#ifndef APPLY8_AT_ONCE
#define APPLY8_AT_ONCE 2
#endif
// From the end to the beginning: the histogram has read the end last, so that is what the L2 cache still holds.
template <int CHANNELS, bool BY_CHANNEL, int AT_ONCE, typename S> __device__ __forceinline__ void apply(S* pixels, u64 count, const S* lut) {
    typedef Pack<S, CHANNELS> P;
    const u64 packs = whole_packs<S, CHANNELS>(pixels, count);
    const u64 stride = threads_of_grid();
    apply_singles<CHANNELS, BY_CHANNEL>(pixels, packs * P::PIXELS, count, lut);
    for (u64 i = thread_of_grid(); i < packs; i += AT_ONCE * stride) {
        P here[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (i + k * stride < packs) here[k] = P::load(pixels, packs - 1 - (i + k * stride));
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (i + k * stride < packs) {
                equalized_pack<CHANNELS, BY_CHANNEL>(here[k], lut).store(pixels, packs - 1 - (i + k * stride));
            }
        }
    }
}

// `words` 16-byte words from global to shared memory, by the whole block.
__device__ __forceinline__ void share(const void* from, void* to, u32 words) {
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
    __syncthreads();
}

template <int CHANNELS, bool BY_CHANNEL> __device__ __forceinline__ void apply8(u8* pixels, u64 count, const u8* luts) {
    constexpr int BYTES = BY_CHANNEL ? 768 : 256;
    __shared__ uint4 lut[BYTES / 16];
    share(luts, lut, BYTES / 16);
    apply<CHANNELS, BY_CHANNEL, CHANNELS == 3 ? 1 : APPLY8_AT_ONCE>(pixels, count, reinterpret_cast<const u8*>(lut));
}

// Depth 16: `_shared` holds the one LUT in 128 KiB of shared memory, for many pixels a block on GPUs that have as much.
#define APPLY(NAME, CHANNELS, BY_CHANNEL)                                                                                    \
    extern "C" __global__ void __launch_bounds__(1024) apply8_##NAME(u8* pixels, u64 count, const u8* luts) {                \
        apply8<CHANNELS, BY_CHANNEL>(pixels, count, luts);                                                                   \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(1024) apply16_##NAME(u16* pixels, u64 count,                                \
                                                                      const u16* __restrict__ luts) {                        \
        apply<CHANNELS, BY_CHANNEL, CHANNELS == 3 ? 1 : 2>(pixels, count, luts);                                                                    \
    }
#define APPLY_SHARED(NAME, CHANNELS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(1024) apply16_##NAME##_shared(u16* pixels, u64 count, const u16* luts) {    \
        extern __shared__ uint4 lut[];                                                                                       \
        share(luts, lut, 65536 * sizeof(u16) / sizeof(uint4));                                                               \
        apply<CHANNELS, false, CHANNELS == 3 ? 2 : 4>(pixels, count, reinterpret_cast<const u16*>(lut));                                            \
    }
APPLY(gray, 1, false)
APPLY(gray_alpha, 2, false)
APPLY(rgb_luma, 3, false)
APPLY(rgb_channels, 3, true)
APPLY(rgba_luma, 4, false)
APPLY(rgba_channels, 4, true)
APPLY_SHARED(gray, 1)
APPLY_SHARED(gray_alpha, 2)
APPLY_SHARED(rgb_luma, 3)
APPLY_SHARED(rgba_luma, 4)

// The samples of one pack's pixels in a plane of their own: 4, 8 or 16 bytes, moved at once.
template <int BYTES> struct Few;
template <> struct Few<4> { typedef u32 Type; };
template <> struct Few<8> { typedef uint2 Type; };
template <> struct Few<16> { typedef uint4 Type; };

// `LUMA`, or the index of a channel, as the kernels' argument `channel`.
constexpr u32 LUMA = ~0u;

template <int CHANNELS> __device__ __forceinline__ u32 value_of(const u32 (&in)[CHANNELS], u32 channel) {
    if (CHANNELS >= 3) {
        if (channel == LUMA) return luma(in[0], in[1], in[CHANNELS - 1 < 2 ? 0 : 2]);
        return channel == 0 ? in[0] : channel == 1 ? in[1] : in[CHANNELS - 1 < 2 ? 0 : 2];
    }
    return in[0];
}

template <typename S, int CHANNELS>
__device__ __forceinline__ void with_value(u32 (&pixel)[CHANNELS], u32 channel, u32 value) {
    if (CHANNELS < 3) {
        pixel[0] = value;
    } else if (channel == LUMA) {
        const int step = int(value) - int(value_of<CHANNELS>(pixel, LUMA));
#pragma unroll
        for (int c = 0; c < 3 && c < CHANNELS; ++c) pixel[c] = clamped<S>(int(pixel[c]) + step);
    } else {
#pragma unroll
        for (int c = 0; c < 3 && c < CHANNELS; ++c) pixel[c] = c == channel ? value : pixel[c];
    }
}

// Copies luma or a channel into a plane of its own, or (`BACK`) brings such a plane's new values into the picture.
template <typename S, int CHANNELS, bool BACK>
__device__ __forceinline__ void exchange(S* pixels, u64 count, S* plane, u32 channel) {
    typedef Pack<S, CHANNELS> P;
    typedef typename Few<P::PIXELS * sizeof(S)>::Type Samples;
    union Line {
        Samples all;
        u32 word[P::PIXELS * sizeof(S) / 4];
    };
    constexpr int PER_WORD = 4 / sizeof(S);
    const u64 packs = min(whole_packs<S, CHANNELS>(pixels, count), whole_packs<S, CHANNELS>(plane, count));
    const u64 stride = threads_of_grid();
    for (u64 i = thread_of_grid(); i < packs; i += stride) {
        const P from = P::load(pixels, i);
        P to;
        Line line;
        if (BACK) line.all = reinterpret_cast<const Samples*>(plane)[i];
#pragma unroll
        for (int p = 0; p < P::PIXELS; ++p) {
            const u32 shift = 8 * sizeof(S) * (p % PER_WORD);
            u32 pixel[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) pixel[c] = from.get(p * CHANNELS + c);
            if (BACK) {
                with_value<S, CHANNELS>(pixel, channel, (line.word[p / PER_WORD] >> shift) & (levels<S>() - 1));
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c) to.put(p * CHANNELS + c, pixel[c]);
            } else {
                const u32 value = value_of<CHANNELS>(pixel, channel) << shift;
                line.word[p / PER_WORD] = p % PER_WORD ? line.word[p / PER_WORD] | value : value;
            }
        }
        if (BACK) {
            to.store(pixels, i);
        } else {
            reinterpret_cast<Samples*>(plane)[i] = line.all;
        }
    }
    for (u64 i = packs * P::PIXELS + thread_of_grid(); i < count; i += stride) {
        u32 pixel[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) pixel[c] = pixels[i * CHANNELS + c];
        if (BACK) {
            with_value<S, CHANNELS>(pixel, channel, plane[i]);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) pixels[i * CHANNELS + c] = S(pixel[c]);
        } else {
            plane[i] = S(value_of<CHANNELS>(pixel, channel));
        }
    }
}

#define PLANES(NAME, BITS, CHANNELS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(1024) extract##BITS##_##NAME(u##BITS* pixels, u64 count, u##BITS* plane,    \
                                                                              u32 channel) {                                 \
        exchange<u##BITS, CHANNELS, false>(pixels, count, plane, channel);                                                   \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(1024) insert##BITS##_##NAME(u##BITS* pixels, u64 count, u##BITS* plane,     \
                                                                             u32 channel) {                                  \
        exchange<u##BITS, CHANNELS, true>(pixels, count, plane, channel);                                                    \
    }
PLANES(gray_alpha, 8, 2)
PLANES(gray_alpha, 16, 2)
PLANES(rgb, 8, 3)
PLANES(rgb, 16, 3)
PLANES(rgba, 8, 4)
PLANES(rgba, 16, 4)
