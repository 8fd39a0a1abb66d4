// Copies luma or one channel of interleaved pictures into planes of their own, and back.

#include "planes.cuh"

// The kernels' argument `channel` is `LUMA` or the index of a channel.
constexpr u32 LUMA = ~0u;

// Luma, with which all colours change by as much, or a channel.
template <typename S> struct Channel {
    u32 channel;

    template <int CHANNELS> __device__ __forceinline__ u32 of(const u32 (&in)[CHANNELS]) const {
        if (CHANNELS >= 3 && channel == LUMA) return luma(in[0], in[CHANNELS > 1 ? 1 : 0], in[CHANNELS > 2 ? 2 : 0]);
        u32 value = in[0];
#pragma unroll
        for (int c = 1; c < CHANNELS; ++c) value = c == channel ? in[c] : value;
        return value;
    }
    template <int CHANNELS> __device__ __forceinline__ void change(u32 (&pixel)[CHANNELS], u32 from, u32 to) const {
        if (CHANNELS < 3) {
            pixel[0] = to;
        } else if (channel == LUMA) {
            const int step = int(to) - int(from);
#pragma unroll
            for (int c = 0; c < 3 && c < CHANNELS; ++c) pixel[c] = clamped<S>(int(pixel[c]) + step);
        } else {
#pragma unroll
            for (int c = 0; c < 3 && c < CHANNELS; ++c) pixel[c] = c == channel ? to : pixel[c];
        }
    }
};

#define PLANES(NAME, BITS, CHANNELS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        extract##BITS##_##NAME(Pictures pictures, u##BITS* planes, u64 plane_pitch, u32 channel) {                           \
        exchange<u##BITS, CHANNELS, false>(pictures, planes, plane_pitch, Channel<u##BITS>{channel});                                        \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        insert##BITS##_##NAME(Pictures pictures, u##BITS* planes, u64 plane_pitch, u32 channel) {                            \
        exchange<u##BITS, CHANNELS, true>(pictures, planes, plane_pitch, Channel<u##BITS>{channel});                                         \
    }
PLANES(gray_alpha, 8, 2)
PLANES(gray_alpha, 16, 2)
PLANES(rgb, 8, 3)
PLANES(rgb, 16, 3)
PLANES(rgba, 8, 4)
PLANES(rgba, 16, 4)
