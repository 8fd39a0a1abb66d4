// Copies luma or one channel of an interleaved picture into a plane of its own, for CLAHE, and back (alpha is only copied out). Gray is
// copied where its old levels are needed to weaken the new ones.

#include "planes.cuh"

#define PLANES(NAME, BITS, CHANNELS)                                                                                         \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        extract##BITS##_##NAME(u##BITS* pixels, u64 count, ByteOrders orders, u##BITS* plane, u32 channel) {                 \
        exchange<u##BITS, CHANNELS, false>(pixels, pixels, count, orders, plane, channel, FULL_STRENGTH);                    \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        insert##BITS##_##NAME(u##BITS* pixels, u64 count, ByteOrders orders, u##BITS* plane, u32 channel, u32 strength) {    \
        exchange<u##BITS, CHANNELS, true>(pixels, pixels, count, orders, plane, channel, strength);                          \
    }
PLANES(gray, 8, 1)
PLANES(gray, 16, 1)
PLANES(gray_alpha, 8, 2)
PLANES(gray_alpha, 16, 2)
PLANES(rgb, 8, 3)
PLANES(rgb, 16, 3)
PLANES(rgba, 8, 4)
PLANES(rgba, 16, 4)
