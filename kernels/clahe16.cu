// CLAHE, depth 16.

#include "clahe16.cuh"

// Makes one LUT per tile; a block takes tile after tile.
extern "C" __global__ void __launch_bounds__(1024)
    clahe_tiles16(const u16* plane, Tiling t, u32 order, u32 spread_from, u32 spread, u32 capacity, u32* spill, u16* luts) {
    const TileLuts16 of_block = {capacity, spill + 65536ull * blockIdx.x};
    for (u32 tile = blockIdx.x; tile < t.tiles_x * t.tiles_y; tile += gridDim.x) {
        of_block.make(plane, t, order, tile, spread_from, spread, 65536, luts + 65536ull * tile);
    }
}

// Maps levels by a table that holds a cell's four LUTs side by side: one access instead of four that are far apart.
struct CellTables16 {
    const uint2* tables;

    __device__ __forceinline__ u32 level(const Tiling& t, const Between& x, const Between& y, u32 level) const {
        const uint2 e = __ldg(tables + (u64(y.cell) * (t.tiles_x + 1) + x.cell) * 65536 + level);
        return rounded(between(__uint2float_rn(e.x & 0xffff), __uint2float_rn(e.x >> 16), __uint2float_rn(e.y & 0xffff),
                               __uint2float_rn(e.y >> 16), x.a, x.b, y.a, y.b));
    }
};

// Lays the LUTs of each cell side by side. Grid: x = 32 blocks of 1024 threads, two levels per thread; y = cells in a row; z = rows of
// cells.
extern "C" __global__ void __launch_bounds__(1024) clahe_tables16(Tiling t, const u16* luts, uint4* tables) {
    const u32 x = blockIdx.y, y = blockIdx.z, pair = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 x1 = max(x, 1u) - 1, x2 = min(x, t.tiles_x - 1);
    const u64 upper = u64(max(y, 1u) - 1) * t.tiles_x, lower = u64(min(y, t.tiles_y - 1)) * t.tiles_x;
    const u32* pairs = reinterpret_cast<const u32*>(luts) + pair;
    const u32 l00 = pairs[(upper + x1) * 32768], l01 = pairs[(upper + x2) * 32768];
    const u32 l10 = pairs[(lower + x1) * 32768], l11 = pairs[(lower + x2) * 32768];
    tables[(u64(y) * (t.tiles_x + 1) + x) * 32768 + pair] =
        make_uint4(__byte_perm(l00, l01, 0x5410), __byte_perm(l10, l11, 0x5410), __byte_perm(l00, l01, 0x7632), __byte_perm(l10, l11, 0x7632));
}

extern "C" __global__ void __launch_bounds__(256, 8) clahe_direct16(u16* plane, Tiling t, ByteOrders orders, const u16* luts) {
    interpolate(plane, plane, t, TileLuts<u16>{luts}, orders);
}
extern "C" __global__ void __launch_bounds__(256) clahe_cells16(u16* plane, Tiling t, ByteOrders orders, const uint2* tables) {
    interpolate(plane, plane, t, CellTables16{tables}, orders);
}
