// Batches of colour pictures with a new brightness: luma, with the hue kept, or the L of L*a*b*. It
// goes through one LUT, or through planes of its own. Grids: x = blocks that share a picture, y =
// pictures. Blocks: `THREADS`, or as in `planes.cuh`.

#include "colours.cuh"
#include "planes.cuh"

constexpr u32 THREADS = 256;
template <int CHANNELS> __device__ constexpr u32 stage_of_block() { return CHANNELS == 3 ? 3 * THREADS : 1; }

// Counts the lightness of each picture. As `count8`.
template <int CHANNELS>
__device__ __forceinline__ void count_lightness(const Pictures& pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride,
                                                const LabTables* given) {
    typedef Pack<u8, CHANNELS> P;
    constexpr u32 COPIES = CHANNELS == 3 ? 16 : 32;
    __shared__ uint4 memory[256 * COPIES / 4];
    __shared__ uint4 stage[stage_of_block<CHANNELS>()];
    __shared__ __align__(16) LightnessTables tables;
    const Copies8 copies(memory, 1, COPIES);
    const SharedWords counters = copies.plane(0);
    const Lightness lightness = {tables};
    share(&given->reading, &tables, sizeof(tables) / sizeof(uint4));
    copies.clear();
    const u8* pixels = pictures.source<u8>(blockIdx.y);
    Run<u8, CHANNELS> run(pixels, pixels, pictures.pixels);
    if (mask) run.head = run.count, run.packs = 0, mask += blockIdx.y * mask_pitch;
    const u64 step = threads_of_grid(), end = rounds_of_grid(run.packs) * step;
    for (u64 i = thread_of_grid(); i < end; i += step) {
        P here;
        here.load(pixels + run.head * CHANNELS, i, run.packs);
        here.in_order(stage);
        if (i >= run.packs) continue;
#pragma unroll
        for (int p = 0; p < P::PIXELS; ++p) {
            u32 pixel[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) pixel[c] = here.get(p * CHANNELS + c);
            if (!has_alpha<CHANNELS>() || pixel[CHANNELS - 1]) counters.add_one(lightness.of(pixel));
        }
    }
    for (u64 k = thread_of_grid(); k < run.singles(); k += step) {
        const u64 i = run.single(k);
        u32 pixel[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) pixel[c] = pixels[i * CHANNELS + c];
        if ((mask && mask[i] == 0) || (has_alpha<CHANNELS>() && pixel[CHANNELS - 1] == 0)) continue;
        counters.add_one(lightness.of(pixel));
    }
    __syncthreads();
    copies.add_to(histograms + blockIdx.y * u64(stride));
}

// Sends the brightness of pictures through LUTs. The LUTs of two pictures are `stride` entries
// apart.
template <typename S, int CHANNELS, typename Colouring>
__device__ __forceinline__ void map_brightness(const Pictures& pictures, const S* lut, u32 stride, const Colouring& colouring) {
    typedef Pack<S, CHANNELS> P;
    __shared__ uint4 stage[stage_of_block<CHANNELS>()];
    lut += blockIdx.y * u64(stride);
    const S* from = pictures.source<S>(blockIdx.y);
    S* to = pictures.target<S>(blockIdx.y);
    const Run<S, CHANNELS> run(from, to, pictures.pixels);
    const u64 step = threads_of_grid(), end = rounds_of_grid(run.packs) * step;
    for (u64 i = thread_of_grid(); i < end; i += step) {
        P here, out;
        here.load(from + run.head * CHANNELS, i, run.packs, true);
        here.in_order(stage, pictures.orders.from);
#pragma unroll
        for (int p = 0; p < P::PIXELS; ++p) {
            u32 pixel[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) pixel[c] = here.get(p * CHANNELS + c);
            const u32 old = colouring.of(pixel);
            colouring.change(pixel, old, lut[old]);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) out.put(p * CHANNELS + c, pixel[c]);
        }
        out.in_lines(stage, pictures.orders.to);
        out.store(to + run.head * CHANNELS, i, run.packs);
    }
    for (u64 k = thread_of_grid(); k < run.singles(); k += step) {
        const u64 at = run.single(k) * CHANNELS;
        u32 pixel[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) pixel[c] = converted<S>(from[at + c], pictures.orders.from);
        const u32 old = colouring.of(pixel);
        colouring.change(pixel, old, lut[old]);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) to[at + c] = S(converted<S>(pixel[c], pictures.orders.to));
    }
}

// The LUTs of 8 bits are copied to shared memory; it has no room for those of 16 bits in addition
// to exchanged packs.
template <int CHANNELS> __device__ __forceinline__ void map_hue8(const Pictures& pictures, const u8* luts, u32 stride, u32 highest) {
    __shared__ u8 lut[256];
    lut[threadIdx.x] = luts[blockIdx.y * u64(stride) + threadIdx.x];
    __syncthreads();
    map_brightness<u8, CHANNELS>(pictures, lut, 0, Hue<u8>{highest});
}
template <int CHANNELS>
__device__ __forceinline__ void map_lightness(const Pictures& pictures, const u8* luts, u32 stride, const LabTables* given) {
    __shared__ u8 lut[256];
    __shared__ __align__(16) LabTables tables;
    lut[threadIdx.x] = luts[blockIdx.y * u64(stride) + threadIdx.x];
    share(given, &tables, sizeof(tables) / sizeof(uint4));
    map_brightness<u8, CHANNELS>(pictures, lut, 0, Lab{tables});
}

#define COLOURS(NAME, CHANNELS)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) count_lightness_##NAME(                                            \
        Pictures pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride, const LabTables* tables) {           \
        count_lightness<CHANNELS>(pictures, mask, mask_pitch, histograms, stride, tables);                                   \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 4)                                                                    \
        map_lightness_##NAME(Pictures pictures, const u8* luts, u32 stride, const LabTables* tables) {                       \
        map_lightness<CHANNELS>(pictures, luts, stride, tables);                                                             \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) map_hue8_##NAME(Pictures pictures, const u8* luts, u32 stride, u32 highest) { \
        map_hue8<CHANNELS>(pictures, luts, stride, highest);                                                                 \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) map_hue16_##NAME(Pictures pictures, const u16* luts, u32 stride, u32 highest) { \
        map_brightness<u16, CHANNELS>(pictures, luts, stride, Hue<u16>{highest});                                            \
    }
COLOURS(rgb, 3)
COLOURS(rgba, 4)

// Luma is extracted into planes as for colours that change by as much: `planes.cu` does that.
#define HUE(NAME, BITS, CHANNELS)                                                                                            \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        insert_hue##BITS##_##NAME(Pictures pictures, u##BITS* planes, u64 plane_pitch, u32 highest) {                        \
        exchange<u##BITS, CHANNELS, true>(pictures, planes, plane_pitch, Hue<u##BITS>{highest});                             \
    }
HUE(rgb, 8, 3)
HUE(rgb, 16, 3)
HUE(rgba, 8, 4)
HUE(rgba, 16, 4)

#define LIGHTNESS(NAME, CHANNELS)                                                                                            \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        extract_lightness_##NAME(Pictures pictures, u8* planes, u64 plane_pitch, const LabTables* given) {                   \
        __shared__ __align__(16) LabTables tables;                                                                           \
        share(given, &tables, sizeof(tables) / sizeof(uint4));                                                               \
        exchange<u8, CHANNELS, false>(pictures, planes, plane_pitch, Lab{tables});                                           \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512)                                                                        \
        insert_lightness_##NAME(Pictures pictures, u8* planes, u64 plane_pitch, const LabTables* given) {                    \
        __shared__ __align__(16) LabTables tables;                                                                           \
        share(given, &tables, sizeof(tables) / sizeof(uint4));                                                               \
        exchange<u8, CHANNELS, true>(pictures, planes, plane_pitch, Lab{tables});                                            \
    }
LIGHTNESS(rgb, 3)
LIGHTNESS(rgba, 4)
