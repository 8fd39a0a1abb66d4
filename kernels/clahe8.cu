// CLAHE, depth 8.

#include "clahe8.cuh"

extern "C" __global__ void __launch_bounds__(1024)
    clahe_tiles8(const u8* plane, Tiling t, u32 parts, u32* histograms, u32* arrived, u8* luts) {
    tile_luts8(plane, t, parts, histograms, arrived, luts);
}

extern "C" __global__ void __launch_bounds__(256) clahe_direct8(u8* plane, Tiling t, const u8* luts) {
    interpolate(plane, plane, t, TileLuts<u8>{luts});
}

extern "C" __global__ void __launch_bounds__(256, 4) clahe_cells8(u8* plane, Tiling t, const u8* luts, u32 bands) {
    map_cells8<false>(plane, plane, t, luts, bands, FULL_STRENGTH);
}
