// Copies luma or one channel of interleaved pictures into planes of their own, for CLAHE, and back (alpha is only copied out). Planes are
// `plane_pitch` samples apart. Grids: x = blocks that share a picture, y = pictures.

#include "batch.cuh"

// A type for the samples of one pack's pixels in a plane: 4, 8 or 16 bytes, moved at once.
template <int BYTES> struct Few;
template <> struct Few<4> { typedef u32 Type; };
template <> struct Few<8> { typedef uint2 Type; };
template <> struct Few<16> { typedef uint4 Type; };

// The kernels' argument `channel` is `LUMA` or the index of a channel.
constexpr u32 LUMA = ~0u;

template <int CHANNELS> __device__ __forceinline__ u32 value_of(const u32 (&in)[CHANNELS], u32 channel) {
    if (CHANNELS >= 3 && channel == LUMA) return luma(in[0], in[CHANNELS > 1 ? 1 : 0], in[CHANNELS > 2 ? 2 : 0]);
    u32 value = in[0];
#pragma unroll
    for (int c = 1; c < CHANNELS; ++c) value = c == channel ? in[c] : value;
    return value;
}

// `strength`: how far to go from the old value to the new one.
template <typename S, int CHANNELS>
__device__ __forceinline__ void with_value(u32 (&pixel)[CHANNELS], u32 channel, u32 value, u32 strength) {
    if (strength != FULL_STRENGTH) value = weakened(value_of<CHANNELS>(pixel, channel), value, strength);
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

// Copies luma or a channel into planes, which have the machine's byte order, or (`BACK`) writes pictures with such planes' new values.
template <typename S, int CHANNELS, bool BACK>
__device__ __forceinline__ void exchange(const Pictures& pictures, S* plane, u64 plane_pitch, u32 channel, u32 strength) {
    typedef Pack<S, CHANNELS> P;
    typedef typename Few<P::PIXELS * sizeof(S)>::Type Samples;
    union Line {
        Samples all;
        u32 word[P::PIXELS * sizeof(S) / 4];
    };
    constexpr int PER_WORD = 4 / sizeof(S);
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const S* pixels = pictures.source<S>(blockIdx.y);
    S* result = BACK ? pictures.target<S>(blockIdx.y) : const_cast<S*>(pixels);
    plane += blockIdx.y * plane_pitch;
    const ByteOrders orders = pictures.orders;
    const u64 count = pictures.pixels;
    const u64 packs = min(min(whole_packs<S, CHANNELS>(pixels, count), whole_packs<S, CHANNELS>(result, count)),
                          whole_packs<S, CHANNELS>(plane, count));
    const u64 stride = threads_of_grid();
    const u64 end = rounds_of_grid(packs) * stride;
    for (u64 i = thread_of_grid(); i < end; i += stride) {
        P from, to;
        from.load(pixels, i, packs);
        from.in_order(stage, orders.from);
        Line line;
        if (BACK && i < packs) line.all = reinterpret_cast<const Samples*>(plane)[i];
#pragma unroll
        for (int p = 0; p < P::PIXELS; ++p) {
            const u32 shift = 8 * sizeof(S) * (p % PER_WORD);
            u32 pixel[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) pixel[c] = from.get(p * CHANNELS + c);
            if (BACK) {
                with_value<S, CHANNELS>(pixel, channel, (line.word[p / PER_WORD] >> shift) & (levels<S>() - 1), strength);
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c) to.put(p * CHANNELS + c, pixel[c]);
            } else {
                const u32 value = value_of<CHANNELS>(pixel, channel) << shift;
                line.word[p / PER_WORD] = p % PER_WORD ? line.word[p / PER_WORD] | value : value;
            }
        }
        if (BACK) {
            to.in_lines(stage, orders.to);
            to.store(result, i, packs);
        } else if (i < packs) {
            reinterpret_cast<Samples*>(plane)[i] = line.all;
        }
    }
    for (u64 i = packs * P::PIXELS + thread_of_grid(); i < count; i += stride) {
        u32 pixel[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) pixel[c] = converted<S>(pixels[i * CHANNELS + c], orders.from);
        if (BACK) {
            with_value<S, CHANNELS>(pixel, channel, plane[i], strength);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) result[i * CHANNELS + c] = S(converted<S>(pixel[c], orders.to));
        } else {
            plane[i] = S(value_of<CHANNELS>(pixel, channel));
        }
    }
}

#define PLANES(NAME, BITS, CHANNELS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        extract##BITS##_##NAME(Pictures pictures, u##BITS* planes, u64 plane_pitch, u32 channel) {                           \
        exchange<u##BITS, CHANNELS, false>(pictures, planes, plane_pitch, channel, FULL_STRENGTH);                           \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        insert##BITS##_##NAME(Pictures pictures, u##BITS* planes, u64 plane_pitch, u32 channel, u32 strength) {              \
        exchange<u##BITS, CHANNELS, true>(pictures, planes, plane_pitch, channel, strength);                                 \
    }
PLANES(gray_alpha, 8, 2)
PLANES(gray_alpha, 16, 2)
PLANES(rgb, 8, 3)
PLANES(rgb, 16, 3)
PLANES(rgba, 8, 4)
PLANES(rgba, 16, 4)
