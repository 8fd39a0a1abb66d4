// Planes of the pictures of a batch, for CLAHE: taken out, and put back into the results. Planes are `plane_pitch` samples apart.
// Grids: x = blocks that share a picture, y = pictures.

#include "batch.cuh"
#include "planes.cuh"

#define PLANES(NAME, BITS, CHANNELS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        batch_extract##BITS##_##NAME(Pictures pictures, u##BITS* planes, u64 plane_pitch, u32 channel) {                     \
        const u##BITS* pixels = pictures.source<u##BITS>(blockIdx.y);                                                        \
        exchange<u##BITS, CHANNELS, false>(pixels, const_cast<u##BITS*>(pixels), pictures.pixels, ByteOrders{},              \
                                           planes + blockIdx.y * plane_pitch, channel, FULL_STRENGTH);                       \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        batch_insert##BITS##_##NAME(Pictures pictures, u##BITS* planes, u64 plane_pitch, u32 channel, u32 strength) {        \
        exchange<u##BITS, CHANNELS, true>(pictures.source<u##BITS>(blockIdx.y), pictures.target<u##BITS>(blockIdx.y),        \
                                          pictures.pixels, ByteOrders{}, planes + blockIdx.y * plane_pitch, channel,         \
                                          strength);                                                                         \
    }
PLANES(gray_alpha, 8, 2)
PLANES(gray_alpha, 16, 2)
PLANES(rgb, 8, 3)
PLANES(rgb, 16, 3)
PLANES(rgba, 8, 4)
PLANES(rgba, 16, 4)
