// The ladder of `histeqd bench`: other ways of equalizing pictures on GPUs.
//
// Each is as published, but without the data races. Only the bench runs these; histeqd's own
// kernels are in the other files.
//
// Unless noted otherwise: depth 8, one pixel per thread, one-dimensional blocks of 256 threads.

#include "clahe.cuh"

constexpr u32 BINS = 256;
constexpr u32 TILE_BLOCK = 256;

// The index of this thread's pixel.
__device__ __forceinline__ u32 here() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---- Histograms. `counts` must begin zeroed.

extern "C" __global__ void ladder_count_global(const u8* pixels, u32 count, u32* counts) {
    if (here() < count) atomicAdd(&counts[pixels[here()]], 1);
}

extern "C" __global__ void ladder_count_shared(const u8* pixels, u32 count, u32* counts) {
    __shared__ u32 own[BINS];
    own[threadIdx.x] = 0;
    __syncthreads();
    if (here() < count) atomicAdd(&own[pixels[here()]], 1);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

// Few blocks, in a grid-stride loop.
extern "C" __global__ void ladder_count_strided(const u8* pixels, u32 count, u32* counts) {
    __shared__ u32 own[BINS];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (u32 i = here(); i < count; i += gridDim.x * blockDim.x) atomicAdd(&own[pixels[i]], 1);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

constexpr u32 WARPS = TILE_BLOCK / WARP;

// A histogram for each warp of the block: clearing them, and adding them up.
__device__ __forceinline__ void clear_copies(u32 (*copies)[BINS]) {
    for (u32 copy = 0; copy < WARPS; ++copy) copies[copy][threadIdx.x] = 0;
    __syncthreads();
}

__device__ __forceinline__ u32 sum_of_copies(u32 (*copies)[BINS]) {
    __syncthreads();
    u32 sum = 0;
    for (u32 copy = 0; copy < WARPS; ++copy) sum += copies[copy][threadIdx.x];
    return sum;
}

extern "C" __global__ void ladder_count_replicated(const u8* pixels, u32 count, u32* counts) {
    __shared__ u32 copies[WARPS][BINS];
    clear_copies(copies);
    u32* own = copies[threadIdx.x / WARP];
    for (u32 i = here(); i < count; i += gridDim.x * blockDim.x) atomicAdd(&own[pixels[i]], 1);
    atomicAdd(&counts[threadIdx.x], sum_of_copies(copies));
}

// ---- The LUT, by one block. The running sum is as published: each level adds the sum of the
// level 1, 2, 4, ... below.

extern "C" __global__ void ladder_lut(const u32* counts, u32* lut) {
    __shared__ u32 running[BINS];
    __shared__ u32 darkest;
    const u32 level = threadIdx.x;
    running[level] = counts[level];
    if (level == 0) darkest = BINS;
    __syncthreads();
    if (counts[level]) atomicMin(&darkest, level);
    for (u32 step = 1; step < BINS; step *= 2) {
        __syncthreads();
        const u32 below = level >= step ? running[level - step] : 0;
        __syncthreads();
        running[level] += below;
    }
    __syncthreads();
    const u64 first = darkest < BINS ? counts[darkest] : 0;
    const u64 above = running[BINS - 1] - first;
    if (above == 0) {
        lut[level] = level;
    } else {
        lut[level] = level < darkest ? 0 : u32((2 * (running[level] - first) * (BINS - 1) + above) / (2 * above));
    }
}

// ---- Sending pixels through the LUT; `out` may be `pixels`.

extern "C" __global__ void ladder_apply_global(const u8* pixels, u8* out, u32 count, const u32* lut) {
    if (here() < count) out[here()] = u8(lut[pixels[here()]]);
}

extern "C" __global__ void ladder_apply_shared(const u8* pixels, u8* out, u32 count, const u32* lut) {
    __shared__ u32 own[BINS];
    own[threadIdx.x] = lut[threadIdx.x];
    __syncthreads();
    if (here() < count) out[here()] = u8(own[pixels[here()]]);
}

extern "C" { __constant__ u32 ladder_constant_lut[BINS]; }

extern "C" __global__ void ladder_apply_constant(const u8* pixels, u8* out, u32 count) {
    if (here() < count) out[here()] = u8(ladder_constant_lut[pixels[here()]]);
}

extern "C" __global__ void ladder_apply_texture(const u8* pixels, u8* out, u32 count, u64 lut) {
    if (here() < count) out[here()] = u8(tex1Dfetch<u32>(lut, int(pixels[here()])));
}

// ---- CLAHE of pictures that the tiles divide evenly. One block per tile; for the interpolation,
// 16 x 16 threads with one pixel each.

// Counts the block's tile, in one histogram per warp. Returns the count of the level with this
// thread's index.
__device__ __forceinline__ u32 count_tile(const u8* pixels, const Tiling& t, u32 (*copies)[BINS]) {
    clear_copies(copies);
    u32* own = copies[threadIdx.x / WARP];
    const u64 left = blockIdx.x % t.tiles_x * t.tile_width, top = blockIdx.x / t.tiles_x * t.tile_height;
    for (u32 i = threadIdx.x; i < t.tile_width * t.tile_height; i += TILE_BLOCK) {
        atomicAdd(&own[pixels[(top + i / t.tile_width) * t.width + left + i % t.tile_width]], 1);
    }
    return sum_of_copies(copies);
}

extern "C" __global__ void ladder_tile_counts(const u8* pixels, Tiling t, u32* counts) {
    __shared__ u32 copies[WARPS][BINS];
    counts[blockIdx.x * BINS + threadIdx.x] = count_tile(pixels, t, copies);
}

// Histogram, clipping, running sum and LUT in one kernel. `luts`: one LUT per tile. `layers`: the
// same entries, for level 0 in all tiles, then for level 1, and so on.
extern "C" __global__ void ladder_tile_luts(const u8* pixels, Tiling t, u8* luts, u8* layers) {
    __shared__ u32 copies[WARPS][BINS];
    __shared__ u32 scratch[WARP];
    const u32 level = threadIdx.x;
    const u32 count = count_tile(pixels, t, copies);
    const u32 kept = t.clip ? min(count, t.clip) : count;
    const Redistribution share(block_sum(count - kept, scratch), 0, BINS);
    const u8 entry = u8(tile_level(block_scan(kept, scratch) + share.through(level), t.lut_scale, BINS - 1));
    luts[blockIdx.x * BINS + level] = entry;
    layers[level * gridDim.x + blockIdx.x] = entry;
}

// The pixel of this thread in a two-dimensional grid over the picture.
struct At {
    u32 x, y;

    __device__ __forceinline__ At() : x(blockIdx.x * blockDim.x + threadIdx.x), y(blockIdx.y * blockDim.y + threadIdx.y) {}
    __device__ __forceinline__ bool within(const Tiling& t) const { return x < t.width && y < t.height; }
    __device__ __forceinline__ u64 index(const Tiling& t) const { return u64(y) * t.width + x; }
};

// Returns the level between the entries of four tiles, which `entry` gives for a tile's number.
template <typename Entry> __device__ __forceinline__ u8 interpolated(const At& at, const Tiling& t, Entry entry) {
    const Between x(at.x, t.inverse_width, t.tiles_x), y(at.y, t.inverse_height, t.tiles_y);
    const u32 upper = y.first * t.tiles_x, lower = y.second * t.tiles_x;
    auto value = [&](u32 tile) { return wide<u8>(entry(tile), 0); };
    return u8(ColumnWeights(x.a).between(value(upper + x.first), value(upper + x.second), value(lower + x.first), value(lower + x.second), y.a,
                                         1.0f - y.a));
}

extern "C" __global__ void ladder_interpolate_global(const u8* pixels, u8* out, Tiling t, const u8* luts) {
    const At at;
    if (!at.within(t)) return;
    const u32 level = pixels[at.index(t)];
    out[at.index(t)] = interpolated(at, t, [=](u32 tile) { return u32(luts[tile * BINS + level]); });
}

extern "C" __global__ void ladder_interpolate_texture(const u8* pixels, u8* out, Tiling t, u64 luts) {
    const At at;
    if (!at.within(t)) return;
    const u32 level = pixels[at.index(t)];
    out[at.index(t)] = interpolated(at, t, [=](u32 tile) { return tex1Dfetch<u32>(luts, int(tile * BINS + level)); });
}

// The texture unit interpolates between the tiles, in steps of 1/256: a layer holds the entries of
// all tiles for one level, and the middle of a tile is the middle of a texel. It returns a fraction
// of the highest level.
extern "C" __global__ void ladder_interpolate_filtered(const u8* pixels, u8* out, Tiling t, u64 layers) {
    const At at;
    if (!at.within(t)) return;
    const float x = at.x * t.inverse_width, y = at.y * t.inverse_height;
    const float share = tex2DLayered<float>(layers, x, y, int(pixels[at.index(t)]));
    out[at.index(t)] = u8(rounded(share * 255.0f));
}

// ---- Histograms of the channels `first`, `first + step`, ... of RGB pixels, as published for
// several GPUs: each block counts into a histogram of its own in global memory, and a second kernel
// adds these up.

constexpr u32 CHANNELS = 3;

// Block: 32 x 4 threads. Grid: two-dimensional.
extern "C" __global__ void ladder_partial(const u8* pixels, u32 width, u32 height, u32* partials, u32 first, u32 step) {
    u32* own = partials + (blockIdx.y * gridDim.x + blockIdx.x) * CHANNELS * BINS;
    for (u32 i = threadIdx.y * blockDim.x + threadIdx.x; i < CHANNELS * BINS; i += blockDim.x * blockDim.y) own[i] = 0;
    __syncthreads();
    const At at;
    for (u32 x = at.x; x < width; x += gridDim.x * blockDim.x) {
        for (u32 y = at.y; y < height; y += gridDim.y * blockDim.y) {
            const u8* pixel = pixels + (u64(y) * width + x) * CHANNELS;
            for (u32 channel = first; channel < CHANNELS; channel += step) atomicAdd(&own[channel * BINS + pixel[channel]], 1);
        }
    }
}

extern "C" __global__ void ladder_add_partials(const u32* partials, u32 blocks, u32* counts) {
    if (here() >= CHANNELS * BINS) return;
    u32 sum = 0;
    for (u32 block = 0; block < blocks; ++block) sum += partials[block * CHANNELS * BINS + here()];
    counts[here()] = sum;
}
