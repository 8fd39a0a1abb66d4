// Transforms of JPEGs, from quantized coefficients to samples and back, and from one quantization
// to another, in the integer arithmetic of `dct.rs` of the codec and of libjpeg's `jidctint.c` and
// `jfdctint.c`: C. Loeffler, A. Ligtenberg and G. Moschytz, Practical fast 1-D DCT algorithms with
// 11 multiplications (ICASSP 1989).

#include "jpeg.cuh"

// Threads per block. `THREADS` in the lanes.
constexpr u32 THREADS = 128;

// Fractional bits of the constants, and of the values that the first pass leaves to the second.
constexpr int CONSTANT_BITS = 13, PASS_BITS = 2;

constexpr int F_0_298 = 2446, F_0_390 = 3196, F_0_541 = 4433, F_0_765 = 6270, F_0_899 = 7373, F_1_175 = 9633, F_1_501 = 12299,
              F_1_847 = 15137, F_1_961 = 16069, F_2_053 = 16819, F_2_562 = 20995, F_3_072 = 25172;

// The most bits, without the sign, of a dequantized coefficient in libjpeg, and in real pictures.
constexpr int ROOM_BITS = 14, USUAL_BITS = 12;

// The largest AC coefficient that baseline codes can express, and the range of those for DC.
constexpr int MAX_AC = 1023, MIN_DC = -1024, MAX_DC = 1023;

// Returns the index in natural order of a coefficient in zigzag order.
__device__ constexpr int natural(int k) {
    constexpr u8 ZIGZAG[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
                               41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
                               30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};
    return ZIGZAG[k];
}

template <int BITS> __device__ __forceinline__ int round_shift(int value) { return (value + (1 << (BITS - 1))) >> BITS; }

// Returns whether a value is too large for libjpeg.
__device__ __forceinline__ bool is_excessive(int value) { return u32(value + (1 << ROOM_BITS)) >> (ROOM_BITS + 1) != 0; }

// Transforms eight values `STEP` apart back, and rounds `SHIFT` bits off.
template <int STEP, int SHIFT> __device__ __forceinline__ void inverse(int* at) {
    const int a = at[0], b = at[STEP], c = at[2 * STEP], d = at[3 * STEP], e = at[4 * STEP], f = at[5 * STEP], g = at[6 * STEP],
              h = at[7 * STEP];
    const int y = (c + g) * F_0_541, t2 = y - g * F_1_847, t3 = y + c * F_0_765;
    const int t0 = (a + e) << CONSTANT_BITS, t1 = (a - e) << CONSTANT_BITS;
    const int even[4] = {t0 + t3, t1 + t2, t1 - t2, t0 - t3};
    const int z5 = (h + d + f + b) * F_1_175, z1 = (h + b) * -F_0_899, z2 = (f + d) * -F_2_562;
    const int z3 = (h + d) * -F_1_961 + z5, z4 = (f + b) * -F_0_390 + z5;
    const int odd[4] = {b * F_1_501 + z1 + z4, d * F_3_072 + z2 + z3, f * F_2_053 + z2 + z4, h * F_0_298 + z1 + z3};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        at[i * STEP] = round_shift<SHIFT>(even[i] + odd[i]);
        at[(7 - i) * STEP] = round_shift<SHIFT>(even[i] - odd[i]);
    }
}

// Transforms eight values `STEP` apart. The first pass adds `PASS_BITS` fractional bits, and the
// second drops them.
template <int STEP, bool FIRST> __device__ __forceinline__ void forward(int* at) {
    constexpr int SHIFT = FIRST ? CONSTANT_BITS - PASS_BITS : CONSTANT_BITS + PASS_BITS;
    int sum[4], difference[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int one = at[i * STEP], other = at[(7 - i) * STEP];
        sum[i] = one + other, difference[i] = one - other;
    }
    const int t10 = sum[0] + sum[3], t13 = sum[0] - sum[3], t11 = sum[1] + sum[2], t12 = sum[1] - sum[2];
    at[0] = FIRST ? (t10 + t11) << PASS_BITS : round_shift<PASS_BITS>(t10 + t11);
    at[4 * STEP] = FIRST ? (t10 - t11) << PASS_BITS : round_shift<PASS_BITS>(t10 - t11);
    const int y = (t12 + t13) * F_0_541;
    at[2 * STEP] = round_shift<SHIFT>(y + t13 * F_0_765);
    at[6 * STEP] = round_shift<SHIFT>(y - t12 * F_1_847);
    const int t7 = difference[0], t6 = difference[1], t5 = difference[2], t4 = difference[3];
    const int z5 = (t4 + t6 + t5 + t7) * F_1_175, z1 = (t4 + t7) * -F_0_899, z2 = (t5 + t6) * -F_2_562;
    const int z3 = (t4 + t6) * -F_1_961 + z5, z4 = (t5 + t7) * -F_0_390 + z5;
    at[7 * STEP] = round_shift<SHIFT>(t4 * F_0_298 + z1 + z3);
    at[5 * STEP] = round_shift<SHIFT>(t5 * F_2_053 + z2 + z4);
    at[3 * STEP] = round_shift<SHIFT>(t6 * F_3_072 + z2 + z3);
    at[STEP] = round_shift<SHIFT>(t7 * F_1_501 + z1 + z4);
}

// Returns eight coefficients, two in each word.
__device__ __forceinline__ int4 packed(const int* eight) {
    int four[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) four[j] = (eight[2 * j] & 0xffff) | eight[2 * j + 1] << 16;
    return make_int4(four[0], four[1], four[2], four[3]);
}

// The coefficients of a block in memory, eight at a time.
struct Stored {
    int4* at;

    __device__ __forceinline__ Stored(const Picture& picture, u32 block)
        : at(reinterpret_cast<int4*>(picture.coefficients + u64(block) * 64)) {}
    __device__ __forceinline__ void load(int i, int* eight) const {
        const int4 words = at[i];
        const int four[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) eight[2 * j] = short(four[j]), eight[2 * j + 1] = four[j] >> 16;
    }
    __device__ __forceinline__ void store(int i, const int* eight) const { at[i] = packed(eight); }
};

// Returns the blocks of an MCU that are of the first component.
__device__ __forceinline__ u32 first_blocks(const Picture& picture) { return picture.component[0].mcu_across * picture.component[0].mcu_down; }

// Transforms the coefficients of the first component to samples. Grid: x = its blocks, y =
// pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_samples(const Picture* pictures, const Transform* transforms) {
    const Picture& picture = pictures[blockIdx.y];
    const Transform& transform = transforms[blockIdx.y];
    const u32 number = blockIdx.x * THREADS + threadIdx.x, in_mcu = first_blocks(picture);
    if (number >= picture.mcus * in_mcu) return;
    const u32 block = number / in_mcu * picture.mcu_blocks + number % in_mcu;
    const Spot spot(picture, block);
    if (!spot.is_inside(picture)) return;
    const Stored stored(picture, block);
    int m[64];
    bool excessive = false;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int eight[8];
        stored.load(i, eight);
        if (i == 0) eight[0] = picture.dc[block];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int product = eight[j] * int(transform.divisors[0][8 * i + j]);
            excessive |= is_excessive(product);
            m[natural(8 * i + j)] = product;
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) inverse<8, CONSTANT_BITS - PASS_BITS>(m + i);
#pragma unroll
    for (int i = 0; i < 64; ++i) excessive |= is_excessive(m[i]);
    if (excessive) atomicOr(&picture.finding->faults, Finding::EXCESSIVE);
    const u32 left = spot.x * 8, top = spot.y * 8, columns = min(8u, transform.width - left), rows = min(8u, transform.height - top);
    u8* to = transform.samples + u64(top) * transform.width + left;
    const bool is_aligned = columns == 8 && transform.width % 8 == 0;
#pragma unroll
    for (int y = 0; y < 8; ++y, to += transform.width) {
        if (y >= rows) return;
        inverse<1, CONSTANT_BITS + PASS_BITS + 3>(m + 8 * y);
        u32 word[2] = {0, 0};
#pragma unroll
        for (int x = 0; x < 8; ++x) word[x / 4] |= u32(min(max(m[8 * y + x] + 128, 0), 255)) << 8 * (x % 4);
        if (is_aligned) {
            *reinterpret_cast<uint2*>(to) = make_uint2(word[0], word[1]);
        } else {
#pragma unroll
            for (int x = 0; x < 8; ++x) {
                if (x < columns) to[x] = u8(word[x / 4] >> 8 * (x % 4));
            }
        }
    }
}

// Transforms the samples of the first component to coefficients. Beyond the edges, the last samples
// are repeated. A block that is not part of it gets the DC coefficient of the last one before it
// that is. Grid: as above.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_quantized(const Picture* pictures, const Transform* transforms) {
    __shared__ Divisor divisors[64];
    // An additional vector for each thread keeps those of neighbours in different banks.
    __shared__ int4 staged[THREADS][9];
    const Picture& picture = pictures[blockIdx.y];
    const Transform& transform = transforms[blockIdx.y];
    if (threadIdx.x < 64) divisors[threadIdx.x] = transform.divisor(0, threadIdx.x);
    __syncthreads();
    const u32 first = blockIdx.x * THREADS, in_mcu = first_blocks(picture), blocks = picture.mcus * in_mcu;
    if (first >= blocks) return;
    const u32 number = min(first + threadIdx.x, blocks - 1);
    const u32 block = number / in_mcu * picture.mcu_blocks + number % in_mcu, source = last_inside(picture, block);
    const Spot spot(picture, source);
    const u32 left = spot.x * 8, top = spot.y * 8, width = transform.width;
    const bool is_aligned = left + 8 <= width && width % 8 == 0;
    int m[64];
#pragma unroll
    for (int y = 0; y < 8; ++y) {
        const u8* from = transform.samples + u64(min(top + y, transform.height - 1)) * width;
        if (is_aligned) {
            const uint2 words = *reinterpret_cast<const uint2*>(from + left);
#pragma unroll
            for (int x = 0; x < 8; ++x) m[8 * y + x] = int((x < 4 ? words.x : words.y) >> 8 * (x % 4) & 255) - 128;
        } else {
#pragma unroll
            for (int x = 0; x < 8; ++x) m[8 * y + x] = int(from[min(left + x, width - 1)]) - 128;
        }
        forward<1, true>(m + 8 * y);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) forward<8, false>(m + i);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int eight[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int value = divisors[8 * i + j].quotient(m[natural(8 * i + j)]);
            if (i + j == 0) picture.dc[block] = short(value);
            eight[j] = i + j == 0 || block != source ? 0 : value;
        }
        staged[threadIdx.x][i] = packed(eight);
    }
    __syncthreads();
    // Eight threads write a block, so that a warp writes whole lines of memory.
    for (u32 i = threadIdx.x; i < 8 * THREADS; i += THREADS) {
        const u32 at = first + i / 8;
        if (at >= blocks) return;
        Stored(picture, at / in_mcu * picture.mcu_blocks + at % in_mcu).at[i % 8] = staged[i / 8][i % 8];
    }
}

// Quantizes a coefficient anew; `excessive`: it is larger than in any real picture.
__device__ __forceinline__ int requantized(const Transform& transform, u32 component, u32 k, int value, bool& excessive) {
    const int product = value * int(transform.divisors[component][k]);
    excessive |= product < -(1 << USUAL_BITS) || product >= 1 << USUAL_BITS;
    return transform.divisor(component, k).quotient(8 * product);
}

// Quantizes the coefficients of a block of another component than the first anew, if its divisors
// differ from those of the output; `excessive`: baseline codes cannot express them. A block that is
// not part of the component has the DC coefficient of the last one before it that is, and nothing
// else.
__device__ __forceinline__ void requantize(const Picture& picture, const Transform& transform, u32 component, u32 block, bool is_inside,
                                           bool& excessive) {
    const Stored stored(picture, block);
    const bool is_requantized = transform.is_requantized[component];
    int dc = picture.dc[block];
    if (is_requantized) {
        dc = min(max(requantized(transform, component, 0, dc, excessive), MIN_DC), MAX_DC);
        picture.dc[block] = short(dc);
    }
    for (int i = 0; i < 8 && (is_requantized || !is_inside); ++i) {
        int eight[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (is_inside) stored.load(i, eight);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            if (is_requantized) eight[j] = min(max(requantized(transform, component, 8 * i + j, eight[j], excessive), -MAX_AC), MAX_AC);
        }
        stored.store(i, eight);
    }
    excessive |= dc < MIN_DC || dc > MAX_DC;
}

// Quantizes the other components of pictures whose chroma does not change. Grid: x = blocks, y =
// pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_requantized(const Picture* pictures, const Transform* transforms) {
    const Picture& picture = pictures[blockIdx.y];
    const Transform& transform = transforms[blockIdx.y];
    if (transform.chroma) return;
    const u32 number = blockIdx.x * THREADS + threadIdx.x, ahead = first_blocks(picture), in_mcu = picture.mcu_blocks - ahead;
    if (number >= picture.mcus * in_mcu) return;
    const u32 block = number / in_mcu * picture.mcu_blocks + ahead + number % in_mcu;
    const Spot spot(picture, block);
    bool excessive = false;
    requantize(picture, transform, spot.component, block, spot.is_inside(picture), excessive);
    if (excessive) atomicOr(&picture.finding->faults, Finding::EXCESSIVE);
}

// Adds up the luma that each sample of chroma covers: `after` it is equalized, or before. Grid: x =
// samples of chroma, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_covered(const Transform* transforms, u32 after) {
    const Transform& transform = transforms[blockIdx.y];
    const u32 number = blockIdx.x * THREADS + threadIdx.x, all = transform.chroma_width * transform.chroma_height;
    if (!transform.covered || number >= all) return;
    const u32 left = number % transform.chroma_width * transform.across, top = number / transform.chroma_width * transform.down;
    const u32 right = min(left + transform.across, transform.width), bottom = min(top + transform.down, transform.height);
    u32 sum = 0;
    for (u32 y = top; y < bottom; ++y) {
        for (u32 x = left; x < right; ++x) sum += transform.samples[u64(y) * transform.width + x];
    }
    transform.covered[u64(after) * all + number] = u16(sum);
}

// The samples of a block, four in each word.
struct Samples {
    u32 words[16];

    __device__ __forceinline__ int operator()(int at) const { return int(words[at / 4] >> 8 * (at % 4) & 255); }
};

// Transforms a block of chroma to samples; `excessive`: its coefficients are in no real picture.
__device__ void to_samples(const Picture& picture, const Transform& transform, u32 component, u32 block, Samples& samples, bool& excessive) {
    const Stored stored(picture, block);
    int m[64];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int eight[8];
        stored.load(i, eight);
        if (i == 0) eight[0] = picture.dc[block];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int product = eight[j] * int(transform.divisors[component][8 * i + j]);
            excessive |= product <= -(1 << USUAL_BITS) || product >= 1 << USUAL_BITS;
            m[natural(8 * i + j)] = product;
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) inverse<8, CONSTANT_BITS - PASS_BITS>(m + i);
#pragma unroll
    for (int i = 0; i < 64; ++i) excessive |= is_excessive(m[i]);
#pragma unroll
    for (int y = 0; y < 8; ++y) inverse<1, CONSTANT_BITS + PASS_BITS + 3>(m + 8 * y);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        samples.words[i] = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) samples.words[i] |= u32(min(max(m[4 * i + j] + 128, 0), 255)) << 8 * j;
    }
}

// Transforms samples of chroma to a block; `excessive`: baseline codes cannot express it.
__device__ void to_block(const Picture& picture, const Transform& transform, u32 component, u32 block, const Samples& samples, bool& excessive) {
    const Stored stored(picture, block);
    int m[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) m[i] = samples(i) - 128;
#pragma unroll
    for (int y = 0; y < 8; ++y) forward<1, true>(m + 8 * y);
#pragma unroll
    for (int i = 0; i < 8; ++i) forward<8, false>(m + i);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int eight[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int value = transform.divisor(component, 8 * i + j).quotient(m[natural(8 * i + j)]);
            if (i + j == 0) picture.dc[block] = short(value);
            excessive |= value < (i + j == 0 ? MIN_DC : -MAX_AC) || value > MAX_AC;
            eight[j] = i + j == 0 ? 0 : value;
        }
        stored.store(i, eight);
    }
}

// Scales a sample of Cb and one of Cr, which cover `number` samples of luma with these sums, as
// `hue.rs` of the codec does; see there.
__device__ __forceinline__ void scale(u32 number, u32 old_sum, u32 new_sum, int& blue, int& red) {
    const double MOST_CHROMA = 4, OFFSET = 4, ABOVE = 1024, TIE = 1.0 / (u64(1) << 34), ROUND = double(u64(1) << 52);
    const int b = blue - 128, r = red - 128;
    const int greatest = max(max(91881 * r, 116130 * b), -22554 * b - 46802 * r);
    const double from = old_sum, to = new_sum, offset = to > from ? OFFSET * number : 0;
    double up = to + offset, under = from + offset;
    const double room = 65536.0 * (255.0 * number - to), of_room = double(number) * greatest;
    if (room * under < up * of_room) up = room, under = of_room;
    const double factor = MOST_CHROMA * under < up ? MOST_CHROMA : up / under;
    const double new_blue = b * factor + (ABOVE + 128 + TIE), new_red = r * factor + (ABOVE + 128 + TIE);
    blue = int(fmin(fmax((new_blue + ROUND) - (ROUND + ABOVE), 0.0), 255.0));
    red = int(fmin(fmax((new_red + ROUND) - (ROUND + ABOVE), 0.0), 255.0));
}

// The block of chroma for a thread: its component, its place in the data, and its first sample. Cb
// and Cr have one block in an MCU.
struct ChromaBlock {
    u32 component, block, left, top;
    bool is_there;

    __device__ __forceinline__ ChromaBlock(const Picture& picture, const Transform& transform) {
        const u32 number = blockIdx.x * THREADS + threadIdx.x, mcu = number % picture.mcus;
        component = 1 + number / picture.mcus;
        is_there = transform.chroma && component < MAX_COMPONENTS;
        block = is_there ? mcu * picture.mcu_blocks + picture.component[component].first : 0;
        left = mcu % picture.mcus_across * 8, top = mcu / picture.mcus_across * 8;
    }
};

// Transforms chroma that changes to samples. Grid: x = blocks of Cb and Cr, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_chroma_samples(const Picture* pictures, const Transform* transforms) {
    const Picture& picture = pictures[blockIdx.y];
    const Transform& transform = transforms[blockIdx.y];
    const ChromaBlock own(picture, transform);
    if (!own.is_there) return;
    bool excessive = false;
    Samples samples;
    to_samples(picture, transform, own.component, own.block, samples, excessive);
#pragma unroll
    for (u32 y = 0; y < 8; ++y) {
        if (own.top + y >= transform.chroma_height) break;
        u8* to = transform.chroma_row(own.component, own.top + y) + own.left;
        *reinterpret_cast<uint2*>(to) = make_uint2(samples.words[2 * y], samples.words[2 * y + 1]);
    }
    if (excessive) atomicOr(&picture.finding->faults, Finding::EXCESSIVE);
}

// Has samples of chroma follow luma where the hue stays. Grid: x = samples of chroma, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_followed(const Transform* transforms) {
    const Transform& transform = transforms[blockIdx.y];
    const u32 number = blockIdx.x * THREADS + threadIdx.x, width = transform.chroma_width;
    if (!transform.covered || number >= width * transform.chroma_height) return;
    const u32 x = number % width, y = number / width;
    u8 *blues = transform.chroma_row(1, y), *reds = transform.chroma_row(2, y);
    int blue = blues[x], red = reds[x];
    const u32 old_sum = transform.covered[number], new_sum = transform.covered[u64(width) * transform.chroma_height + number];
    if (old_sum != new_sum) {
        // The last ones may cover fewer.
        const u32 across = min(transform.across, transform.width - x * transform.across);
        const u32 down = min(transform.down, transform.height - y * transform.down);
        scale(across * down, old_sum, new_sum, blue, red);
        blues[x] = u8(blue), reds[x] = u8(red);
    }
    // Beyond the edge, the last samples are repeated.
    if (x + 1 == width) {
        for (u32 i = width; i < transform.chroma_stride(); ++i) blues[i] = u8(blue), reds[i] = u8(red);
    }
}

// Returns whether luma changes that a block of chroma covers.
__device__ bool is_followed(const Transform& transform, const ChromaBlock& own) {
    const u32 width = transform.chroma_width, height = transform.chroma_height;
    const u32 right = min(own.left + 8, width), bottom = min(own.top + 8, height);
    for (u32 y = own.top; y < bottom; ++y) {
        const u16 *old_sums = transform.covered + u64(y) * width, *new_sums = old_sums + u64(width) * height;
        for (u32 x = own.left; x < right; ++x) {
            if (old_sums[x] != new_sums[x]) return true;
        }
    }
    return false;
}

// Transforms samples of chroma to coefficients. Where the hue stays, it quantizes blocks in which no
// luma changes as those of pictures whose chroma stays. Grid: x = blocks of Cb and Cr, y =
// pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_chroma_quantized(const Picture* pictures, const Transform* transforms) {
    const Picture& picture = pictures[blockIdx.y];
    const Transform& transform = transforms[blockIdx.y];
    const ChromaBlock own(picture, transform);
    if (!own.is_there) return;
    bool excessive = false;
    if (transform.covered && !is_followed(transform, own)) {
        requantize(picture, transform, own.component, own.block, true, excessive);
    } else {
        Samples samples;
#pragma unroll
        for (u32 y = 0; y < 8; ++y) {
            const u8* from = transform.chroma_row(own.component, min(own.top + y, transform.chroma_height - 1)) + own.left;
            const uint2 words = *reinterpret_cast<const uint2*>(from);
            samples.words[2 * y] = words.x, samples.words[2 * y + 1] = words.y;
        }
        to_block(picture, transform, own.component, own.block, samples, excessive);
    }
    if (excessive) atomicOr(&picture.finding->faults, Finding::EXCESSIVE);
}

// Returns the sample of chroma for a pixel: by the triangle filter where it covers two pixels across
// or down, and itself otherwise. See `rgb.rs` of the codec.
__device__ __forceinline__ int upsampled(const Transform& transform, u32 component, u32 x, u32 y) {
    const u32 across = transform.across, down = transform.down, width = transform.chroma_width;
    const u32 column = x / across, row = y / down;
    const u8* near = transform.chroma_row(component, row);
    const bool is_filtered = across == 2 ? down <= 2 && width >= 3 : across == 1 && down == 2;
    if (!is_filtered) return near[column];
    const u32 above = row > 0 ? row - 1 : 0, below = min(row + 1, transform.chroma_height - 1);
    const u8* far = transform.chroma_row(component, y % 2 == 0 ? above : below);
    if (across == 1) return (3 * near[column] + far[column] + 1 + int(y % 2)) >> 2;
    const u32 beside = x % 2 == 0 ? (column > 0 ? column - 1 : 0) : min(column + 1, width - 1);
    if (down == 1) return (3 * near[column] + near[beside] + 1 + int(x % 2)) >> 2;
    return (3 * (3 * near[column] + far[column]) + 3 * near[beside] + far[beside] + 8 - int(x % 2)) >> 4;
}

// Returns a factor with 16 fraction bits, for colours.
__device__ constexpr int fixed(double factor) { return int(factor * 65536 + 0.5); }

// Half of a unit, which rounds to the nearest.
constexpr int HALF = 1 << 15;

// Converts pictures to RGB, with upsampled chroma. Grid: x = samples of chroma, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_rgb(const Transform* transforms) {
    const Transform& transform = transforms[blockIdx.y];
    const u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (!transform.rgb || number >= transform.chroma_width * transform.chroma_height) return;
    const u32 left = number % transform.chroma_width * transform.across, top = number / transform.chroma_width * transform.down;
    const u32 right = min(left + transform.across, transform.width), bottom = min(top + transform.down, transform.height);
    for (u32 y = top; y < bottom; ++y) {
        for (u32 x = left; x < right; ++x) {
            const u64 at = u64(y) * transform.width + x;
            const int luma = transform.samples[at], blue = upsampled(transform, 1, x, y) - 128, red = upsampled(transform, 2, x, y) - 128;
            const int colours[3] = {luma + ((fixed(1.402) * red + HALF) >> 16),
                                    luma + ((HALF - fixed(0.34414) * blue - fixed(0.71414) * red) >> 16),
                                    luma + ((fixed(1.772) * blue + HALF) >> 16)};
#pragma unroll
            for (u32 channel = 0; channel < 3; ++channel) transform.rgb[3 * at + channel] = u8(min(max(colours[channel], 0), 255));
        }
    }
}

// Converts RGB to luma and to chroma, whose samples are the means of the pixels that they cover. The
// last pixels are repeated beyond the edges. Grid: x = samples of chroma in rows of whole blocks, y
// = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_ycbcr(const Transform* transforms) {
    // The middle of chroma; a half goes down.
    const int MIDDLE = (128 << 16) + HALF - 1;
    const Transform& transform = transforms[blockIdx.y];
    const u32 number = blockIdx.x * THREADS + threadIdx.x, stride = transform.chroma_stride();
    if (!transform.rgb || number >= stride * transform.chroma_height) return;
    const u32 column = number % stride, row = number / stride, across = transform.across, down = transform.down;
    u32 blue = 0, red = 0;
    for (u32 y = row * down; y < (row + 1) * down; ++y) {
        for (u32 x = column * across; x < (column + 1) * across; ++x) {
            const u64 at = u64(min(y, transform.height - 1)) * transform.width + min(x, transform.width - 1);
            const int r = transform.rgb[3 * at], g = transform.rgb[3 * at + 1], b = transform.rgb[3 * at + 2];
            if (y < transform.height && x < transform.width) {
                transform.samples[at] = u8((fixed(0.299) * r + fixed(0.587) * g + fixed(0.114) * b + HALF) >> 16);
            }
            blue += u32((fixed(0.5) * b - fixed(0.16874) * r - fixed(0.33126) * g + MIDDLE) >> 16);
            red += u32((fixed(0.5) * r - fixed(0.41869) * g - fixed(0.08131) * b + MIDDLE) >> 16);
        }
    }
    // Halves between two samples go up and down by turns.
    const u32 area = across * down, turn = column % 2;
    const u32 rounding = across == 2 && down == 1 ? turn : across == 2 && down == 2 ? 1 + turn : area / 2;
    transform.chroma_row(1, row)[column] = u8((blue + rounding) / area);
    transform.chroma_row(2, row)[column] = u8((red + rounding) / area);
}
