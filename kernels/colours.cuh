// The rules by which the colours of a pixel follow from a new brightness. Each colouring has `of`,
// the brightness that is equalized, and `change`, which gives a pixel, of colours and perhaps
// alpha, a new one. The integers are exact, with the bytes of the CPU: see
// `crates/equalize/src/hue.rs` and `lab.rs`.

#pragma once
#include "batch.cuh"

// Integers that hold twice a product of a sample, and a difference of 65536 times a sample, or that
// modulo their range.
template <typename S> struct Wide;
template <> struct Wide<u8> {
    typedef u32 Unsigned;
    typedef int Signed;
};
template <> struct Wide<u16> {
    typedef u64 Unsigned;
    typedef i64 Signed;
};

// Luma, with the differences of the colours from it scaled by the ratio of lumas, as far as the
// range and `MOST_CHROMA` allow, and less where it is dark.
template <typename S> struct Hue {
    // `OFFSET` is in levels of 256.
    static constexpr u32 MOST_CHROMA = 4, OFFSET = 4;
    u32 highest;

    template <int CHANNELS> __device__ __forceinline__ u32 of(const u32 (&pixel)[CHANNELS]) const {
        return luma(pixel[0], pixel[1], pixel[2]);
    }
    template <int CHANNELS> __device__ __forceinline__ void change(u32 (&pixel)[CHANNELS], u32 from, u32 to) const {
        typedef typename Wide<S>::Unsigned U;
        typedef typename Wide<S>::Signed I;
        if (from == to) return;
        // Only a LUT with entries above the highest level needs the limit.
        const U k = min(to, highest), above = highest - k, exact = 19595u * pixel[0] + 38470u * pixel[1] + 7471u * pixel[2];
        const U room = (U(max(max(pixel[0], pixel[1]), pixel[2])) << 16) - exact;
        // The ratio with an offset is the lesser of the two where luma grows.
        const U offset = (k << 16) > exact ? max(OFFSET * highest / 255, 1u) : 0;
        const U lighter = k + offset, old = exact + (offset << 16);
        const bool is_darker = lighter * room < above * old;
        U n = is_darker ? lighter : above, d = is_darker ? old : room;
        // The denominator may be 0 for gray pixels, for which the factor has no effect.
        if (n * (65536 / MOST_CHROMA) >= d) n = MOST_CHROMA, d = 65536;
        const float factor = __fdividef(float(n), float(d));
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            const U apart = (U(pixel[c]) << 16) - exact;
            // The estimate is off by at most one; the remainder shows by which, in as many bits.
            const I estimate = __float2int_rn(__fmul_rn(float(I(apart)), factor));
            const I left = I(2 * (apart * n - d * U(estimate)) + d);
            pixel[c] = u32(k + U(left < 0 ? estimate - 1 : U(left) >= 2 * d ? estimate + 1 : estimate));
        }
    }
};

// The tables for reading L*a*b*.
struct LightnessTables {
    // Linear light of a sample, in units of 1/2040.
    u16 light[256];
    // The root that L*a*b* takes of X, Y and Z, in units of 1/32768.
    u16 root[2048];
};

// All tables of L*a*b*. Mirrors `PACKED` in `crates/equalize/src/lab.rs`.
struct LabTables {
    LightnessTables reading;
    // Y of a lightness, and its root, both in units of 1/16384.
    u16 y[256], root_of_y[256];
    // The sample of linear light in units of 1/4096.
    u8 of_light[4096];
};

// Rounds a value in units of 1/32768.
__device__ __forceinline__ u32 lab_level(int value) { return clamped<u8>((value + 16384) >> 15); }

// Returns the value for a root; both are in units of 1/16384.
__device__ __forceinline__ int of_root(int root) { return root <= 3390 ? root * 108 / 841 - 290 : (((root * root) >> 14) * root) >> 14; }

// L of L*a*b*, to the bytes of OpenCV.
struct Lightness {
    const LightnessTables& tables;

    template <int CHANNELS> __device__ __forceinline__ u32 of(const u32 (&pixel)[CHANNELS]) const {
        return lab_level(296 * root(pixel, 871, 2929, 296) - 1336934);
    }
    // Returns the root of X, Y or Z, relative to white. The weights are the shares of red, green
    // and blue in it, in units of 1/4096.
    template <int CHANNELS> __device__ __forceinline__ int root(const u32 (&pixel)[CHANNELS], int of_red, int of_green, int of_blue) const {
        const int value = of_red * tables.light[pixel[0]] + of_green * tables.light[pixel[1]] + of_blue * tables.light[pixel[2]];
        return tables.root[(value + 2048) >> 12];
    }
};

// The same, with a and b kept for a new L.
struct Lab {
    const LabTables& tables;

    template <int CHANNELS> __device__ __forceinline__ u32 of(const u32 (&pixel)[CHANNELS]) const {
        return Lightness{tables.reading}.of(pixel);
    }
    template <int CHANNELS> __device__ __forceinline__ void change(u32 (&pixel)[CHANNELS], u32, u32 to) const {
        const Lightness reading = {tables.reading};
        const int of_x = reading.root(pixel, 1777, 1541, 778), of_y = reading.root(pixel, 871, 2929, 296), of_z = reading.root(pixel, 73, 448, 3575);
        const int a = lab_level(500 * (of_x - of_y) + (128 << 15)), b = lab_level(200 * (of_y - of_z) + (128 << 15));
        const int root = tables.root_of_y[to], y = tables.y[to];
        const int x = of_root(root + ((5 * a * 53687 + 128) >> 13) - 4194), z = of_root(root - ((b * 41943 + 16) >> 9) + 10484);
        pixel[0] = sample(12615 * x - 6296 * y - 2223 * z);
        pixel[1] = sample(-3773 * x + 7684 * y + 185 * z);
        pixel[2] = sample(217 * x - 836 * y + 4715 * z);
    }

private:
    // Returns the sample of linear light in units of 2^-26.
    __device__ __forceinline__ u32 sample(int light) const { return tables.of_light[min(max((light + 8192) >> 14, 0), 4095)]; }
};
