// Pictures in blocks of coefficients, for all kernels of the JPEG coder.
//
// A batch of pictures is worked on at once, with one picture for each row of a grid. All blocks are
// in the order of the data (T.81, A.2.3), MCU by MCU, with their AC coefficients in zigzag order.
// DC coefficients depend on one another, and are in an array of their own.

#pragma once
#include "jpeg_walk.cuh"

constexpr u32 MAX_COMPONENTS = 3;

// A component. Mirrored by `Component` in the lanes.
struct Component {
    // Its blocks in the picture. MCUs at the edges may have more, beyond the component.
    u32 across, down;
    // Its blocks in an MCU, and the first of them there.
    u32 mcu_across, mcu_down, first;
};

// A restart interval: its data, from byte `start` up to byte `end`, and its first piece. Mirrored
// by `Interval` in the lanes.
struct Interval {
    u32 start, end, first_piece;
};

// The result of decoding a picture. Mirrored by `Finding` in the lanes.
struct Finding {
    enum : u32 {
        // An invalid code, a block of more than 64 coefficients, or an interval that ends too late
        // or too early.
        DAMAGED = 1,
        // Pieces that have not synchronized: too many codes in a row fit wherever a walk begins, as
        // in an empty page.
        UNCLEAR = 2,
        // A value larger than in any real picture: a DC coefficient of more than 16 bits, or the
        // product of a coefficient and its divisor.
        EXCESSIVE = 4,
        // An output that is longer than the room for it.
        TOO_LONG = 8,
    };
    u32 faults;
    // The number of intervals that end where intact ones do.
    u32 intervals;
};

// A picture. Mirrored by `Picture` in the lanes.
struct Picture {
    // The entropy-coded data, as `Walk` takes them.
    const u8* data;
    const Interval* intervals;
    // By code.
    Steps* steps;
    // By piece: the packed places of the beginning and the end of its walk, the number of blocks
    // that ended in it, and that of those before it.
    u64 *starts, *ends;
    u32 *counts, *before;
    // By block: 64 coefficients, the first of them unused, and the one for DC.
    short *coefficients, *dc;
    Finding* finding;
    u32 number_of_intervals, interval_mcus, pieces;
    u32 mcus_across, mcus, mcu_blocks;
    // By block of an MCU: the number of its component, four bits each, the first block's lowest.
    u64 of_block;
    // Bytes of the data, and of the rest of the file, if the only interval ends at the first marker
    // in them; 0 if intervals are known.
    u32 bytes, unused;
    u32 components;
    Component component[MAX_COMPONENTS];
    Codes codes;

    __device__ __forceinline__ u32 blocks() const { return mcus * mcu_blocks; }
    // Returns the blocks of an interval, and of all intervals before it.
    __device__ __forceinline__ u32 blocks_before(u32 interval) const { return min(u64(interval) * interval_mcus, u64(mcus)) * mcu_blocks; }
    __device__ __forceinline__ u32 blocks_in(u32 interval) const { return blocks_before(interval + 1) - blocks_before(interval); }
};
static_assert(sizeof(Picture) == 2568, "as it is there");

// Numbers to divide by a divisor, as in `Quantizer` in `dct.rs` of the codec.
struct __align__(8) Divisor {
    u16 correction, reciprocal, scale, unused;

    __device__ __forceinline__ int quotient(int value) const {
        const u32 dividend = u32(value < 0 ? -value : value) + correction;
        const int whole = int((dividend * reciprocal >> 16) * scale >> 16);
        return value < 0 ? -whole : whole;
    }
};

// How a picture's coefficients become samples and samples become coefficients. Mirrored by
// `Transform` in the lanes.
struct Transform {
    // The samples of the first component: `width` by `height` of them, without gaps.
    u8* samples;
    // If the hue stays: for each sample of chroma, the sum of the luma that it covers, of all before
    // they are equalized and then of all after it.
    u16* covered;
    // If the picture is equalized as RGB: its pixels, without gaps.
    u8* rgb;
    // If chroma changes: the samples of Cb and then those of Cr, in rows of whole blocks.
    u8* chroma;
    u32 width, height;
    // The samples of chroma, and the luma that each of them covers.
    u32 chroma_width, chroma_height, across, down;
    // By component, whether its coefficients are quantized anew.
    u32 is_requantized[MAX_COMPONENTS];
    u32 unused;
    // By component and coefficient, in zigzag order: the divisors in the file; and the numbers to
    // divide by those of the output.
    u16 divisors[MAX_COMPONENTS][64];
    u16 correction[MAX_COMPONENTS][64], reciprocal[MAX_COMPONENTS][64], scale[MAX_COMPONENTS][64];

    __device__ __forceinline__ Divisor divisor(u32 component, u32 k) const {
        return {correction[component][k], reciprocal[component][k], scale[component][k], 0};
    }
    // Returns the samples in a row of chroma, and the row of Cb or Cr at `chroma`.
    __device__ __forceinline__ u32 chroma_stride() const { return (chroma_width + 7) / 8 * 8; }
    __device__ __forceinline__ u8* chroma_row(u32 component, u32 y) const {
        return chroma + u64((component - 1) * chroma_height + y) * chroma_stride();
    }
};
static_assert(sizeof(Transform) == 1608, "as it is there");

// Where a block is: its component, and its column and row there.
struct Spot {
    u32 component, x, y;

    __device__ __forceinline__ Spot(const Picture& picture, u32 block) {
        const u32 mcu = block / picture.mcu_blocks, number = block % picture.mcu_blocks;
        component = picture.of_block >> (4 * number) & 15;
        const Component& of = picture.component[component];
        const u32 inside = number - of.first;
        x = mcu % picture.mcus_across * of.mcu_across + inside % of.mcu_across;
        y = mcu / picture.mcus_across * of.mcu_down + inside / of.mcu_across;
    }
    // Returns whether the block is part of its component.
    __device__ __forceinline__ bool is_inside(const Picture& picture) const {
        const Component& of = picture.component[component];
        return x < of.across && y < of.down;
    }
};

// Returns the last block of its component in the same MCU, up to this one, that is part of it. The
// first one always is.
__device__ __forceinline__ u32 last_inside(const Picture& picture, u32 block) {
    while (!Spot(picture, block).is_inside(picture)) --block;
    return block;
}
