// Copies a value of each pixel of interleaved pictures into planes of their own, for CLAHE, and
// back (alpha is only copied out). Planes are `plane_pitch` samples apart. Grids: x = blocks that
// share a picture, y = pictures. Blocks: 512. A value has `of`, which reads it, and `change`, which
// gives a pixel a new one.

#pragma once
#include "batch.cuh"

// A type for the samples of one pack's pixels in a plane: 4, 8 or 16 bytes, moved at once.
template <int BYTES> struct Few;
template <> struct Few<4> { typedef u32 Type; };
template <> struct Few<8> { typedef uint2 Type; };
template <> struct Few<16> { typedef uint4 Type; };

// Copies values into planes, which have the machine's byte order, or (`BACK`) writes pictures with
// such planes' new values.
template <typename S, int CHANNELS, bool BACK, typename Value>
__device__ __forceinline__ void exchange(const Pictures& pictures, S* plane, u64 plane_pitch, const Value& what) {
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
                what.change(pixel, what.of(pixel), (line.word[p / PER_WORD] >> shift) & (levels<S>() - 1));
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c) to.put(p * CHANNELS + c, pixel[c]);
            } else {
                const u32 value = what.of(pixel) << shift;
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
            what.change(pixel, what.of(pixel), plane[i]);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) result[i * CHANNELS + c] = S(converted<S>(pixel[c], orders.to));
        } else {
            plane[i] = S(what.of(pixel));
        }
    }
}
