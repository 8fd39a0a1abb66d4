// CLAHE of batches of planes, depth 8. What a picture has in `histograms`, `arrived` and `luts` follows that of the picture before it.

#include "batch.cuh"
#include "clahe8.cuh"

// Grid: x = tiles * parts, y = pictures.
extern "C" __global__ void __launch_bounds__(1024)
    batch_tiles8(Pictures pictures, Tiling t, u32 parts, u32* histograms, u32* arrived, u8* luts) {
    const u64 before = u64(blockIdx.y) * t.tiles_x * t.tiles_y;
    tile_luts8(pictures.source<u8>(blockIdx.y), t, parts, histograms + before * 256, arrived + before, luts + before * 256);
}

// Grid: as for `map_cells8`, y = pictures.
extern "C" __global__ void __launch_bounds__(256, 4)
    batch_cells8(Pictures pictures, Tiling t, const u8* luts, u32 bands, u32 strength) {
    luts += u64(blockIdx.y) * t.tiles_x * t.tiles_y * 256;
    const u8* from = pictures.source<u8>(blockIdx.y);
    u8* to = pictures.target<u8>(blockIdx.y);
    if (strength == FULL_STRENGTH) {
        map_cells8<false>(from, to, t, luts, bands, strength);
    } else {
        map_cells8<true>(from, to, t, luts, bands, strength);
    }
}

// Grid: as for `interpolate`, z = pictures.
extern "C" __global__ void __launch_bounds__(256) batch_direct8(Pictures pictures, Tiling t, const u8* luts, u32 strength) {
    luts += u64(blockIdx.z) * t.tiles_x * t.tiles_y * 256;
    interpolate(pictures.source<u8>(blockIdx.z), pictures.target<u8>(blockIdx.z), t, TileLuts<u8>{luts}, ByteOrders{}, strength);
}
