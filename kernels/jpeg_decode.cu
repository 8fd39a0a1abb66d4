// Decoder of the entropy-coded data of baseline JPEGs: quantized coefficients, or the finding that
// the data are damaged.
//
// After A. Weißenberger and B. Schmidt, Accelerating JPEG Decompression on GPUs (HiPC 2021): the
// data of each restart interval are cut into pieces, and a thread begins at each as if an MCU began
// there. Huffman codes synchronize by themselves, so most threads end at the same place as a walk
// from the front. A thread walks again if its predecessor ended elsewhere than it began, up to the
// first place of its earlier walk. Then the number of blocks before each piece is known, and its
// coefficients can be written.

#include "jpeg.cuh"

// Threads per block, each with a piece. `THREADS` in the lanes.
constexpr u32 THREADS = 256;

// A walk leaves a mark at every `STRIDE` bytes of its piece.
constexpr u32 STRIDE = 32;
constexpr u32 MARKS = PIECE / STRIDE - 1;

// A piece: its interval, and its place in the data.
struct Piece {
    u32 interval, start, end;
    bool is_first;

    __device__ __forceinline__ Piece(const Picture& picture, u32 number) {
        u32 low = 0, high = picture.number_of_intervals - 1;
        while (low < high) {
            const u32 middle = (low + high + 1) / 2;
            if (picture.intervals[middle].first_piece <= number) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        interval = low;
        const Interval in = picture.intervals[low];
        start = in.start + (number - in.first_piece) * PIECE;
        end = min(start + PIECE, in.end);
        is_first = number == in.first_piece;
    }
    // Returns where its first symbol begins if an MCU begins there.
    __device__ __forceinline__ u64 guess(const u8* data) const {
        return Place{8 * (start + (!is_first && data[start - 1] == 0xff)), 0, 0}.packed();
    }
};

// A walk along a piece: its end, and the number of blocks that ended on the way.
struct Walked {
    u64 end;
    u32 blocks;
};

// A mark: the walk's distance from the mark's byte, its place in the MCU there, and in the lowest
// bits the number of blocks ended before.
constexpr u32 COUNT_BITS = 11;
__device__ __forceinline__ u32 here(const Walk& walk, u32 byte) {
    return ((walk.position() - 8 * byte) << 10 | walk.block << 6 | walk.known) << COUNT_BITS;
}

// Walks along a piece. `marks`: those of this thread, `THREADS` apart. `again`: there are marks
// already, of the walk `earlier`.
__device__ __forceinline__ Walked walk_piece(Walk& walk, const Piece& piece, u32* marks, bool again, const Walked& earlier) {
    u32 blocks = 0, to = min(piece.start + STRIDE, piece.end);
    bool wrong = false;
    // One loop, so that the threads of a warp need not wait for one another at each mark.
    for (u32 i = 0;;) {
        if (walk.is_before(to)) {
            blocks += walk.next(wrong);
            continue;
        }
        if (to == piece.end) return {walk.place().packed(), blocks};
        const u32 mark = here(walk, to), known = marks[i * THREADS];
        if (again && known >> COUNT_BITS == mark >> COUNT_BITS) {
            const u32 more = blocks - known % (1 << COUNT_BITS);
            for (; i < MARKS; ++i) marks[i * THREADS] += more;
            return {earlier.end, earlier.blocks + more};
        }
        marks[i * THREADS] = mark | blocks;
        ++i;
        to = min(to + STRIDE, piece.end);
    }
}

// Finds the first marker in the data of each picture without restarts, the end of its only
// interval. Grid: x = any, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_ends(const Picture* pictures) {
    const Picture& picture = pictures[blockIdx.y];
    u32* end = const_cast<u32*>(&picture.intervals->end);
    const u32 words = (picture.bytes + 3) / 4;
    const u32* data = reinterpret_cast<const u32*>(picture.data);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < words && 4 * i < *const_cast<volatile u32*>(end); i += gridDim.x * THREADS) {
        const u32 word = data[i], next = __funnelshift_r(word, data[i + 1], 8);
        // The highest bit of each byte that is all ones, and of each byte that is followed by
        // zeros.
        const u32 ones = word & (((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u);
        const u32 before_zeros = ~(((next & 0x7f7f7f7fu) + 0x7f7f7f7fu) | next) & 0x80808080u;
        const u32 markers = ones & ~before_zeros;
        if (markers) atomicMin(end, 4 * i + (__ffs(markers) - 1) / 8);
    }
}

// Returns whether the data end with the picture: with its marker, after any number of fill bytes.
__device__ __forceinline__ bool ends_picture(const Picture& picture, u32 end) {
    while (end < picture.bytes && picture.data[end] == 0xff) ++end;
    return end < picture.bytes && picture.data[end] == 0xd9;
}

// Makes the tables of all codes, and finds the pieces of pictures without restarts. Grid: x = any,
// y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_steps(Picture* pictures) {
    Picture& picture = pictures[blockIdx.y];
    make_steps(picture.codes, picture.steps, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS);
    if (blockIdx.x > 0 || threadIdx.x > 0 || picture.bytes == 0) return;
    const u32 end = picture.intervals->end;
    picture.pieces = (end + PIECE - 1) / PIECE;
    if (end == 0 || !ends_picture(picture, end)) {
        picture.pieces = 0;
        picture.finding->faults = Finding::DAMAGED;
    }
}

// Copies a picture's tables to shared memory, for the whole block.
__device__ __forceinline__ void load_steps(const Picture& picture, Steps* steps) {
    const uint4* from = reinterpret_cast<const uint4*>(picture.steps);
    uint4* to = reinterpret_cast<uint4*>(steps);
    for (u32 i = threadIdx.x; i < picture.codes.number * (sizeof(Steps) / sizeof(uint4)); i += THREADS) to[i] = from[i];
    __syncthreads();
}

// Walks along all pieces, and again until those of a block of threads have synchronized. In the
// first round, blocks begin at guesses; in further rounds, at the ends of their predecessors in the
// round before. Grid: x = blocks, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_synchronize(const Picture* pictures, u32 round) {
    __shared__ __align__(16) Steps steps[MAX_CODES];
    __shared__ u32 marks[MARKS * THREADS];
    __shared__ u64 ends[THREADS];
    const Picture& picture = pictures[blockIdx.y];
    const u32 first = blockIdx.x * THREADS, number = first + threadIdx.x;
    if (first >= picture.pieces) return;
    const bool exists = number < picture.pieces;
    const Piece piece(picture, exists ? number : first);
    // Its beginning, that of the known walk, and whether it must be walked.
    u64 start = 0, walked_from = 0;
    Walked walked = {0, 0};
    bool go = exists, again = false;
    if (round == 0) {
        start = piece.guess(picture.data);
    } else {
        go = threadIdx.x == 0 && !piece.is_first && picture.ends[first - 1] != picture.starts[first];
        if (!__syncthreads_or(go)) return;
        if (exists) start = walked_from = picture.starts[number], walked = {picture.ends[number], picture.counts[number]};
        if (go) start = picture.ends[first - 1];
    }
    load_steps(picture, steps);
    // At most as often as there are threads: each time, one more piece from the first on is right.
    for (;;) {
        if (go) {
            Walk walk(picture.data, picture.intervals[piece.interval].end, picture.codes, steps, Place::unpacked(start));
            walked = walk_piece(walk, piece, marks + threadIdx.x, again, walked);
            walked_from = start, again = true;
        }
        ends[threadIdx.x] = walked.end;
        __syncthreads();
        if (exists && threadIdx.x > 0 && !piece.is_first) start = ends[threadIdx.x - 1];
        go = start != walked_from;
        if (!__syncthreads_or(go)) break;
    }
    if (exists) picture.starts[number] = walked_from, picture.ends[number] = walked.end, picture.counts[number] = walked.blocks;
}

// Adds up the blocks before each piece, from the first of the picture on, and looks whether all
// pieces have synchronized. Grid: x = pictures. Block: 1024.
extern "C" __global__ void __launch_bounds__(1024) jpeg_number(const Picture* pictures) {
    __shared__ u32 scratch[WARP];
    __shared__ u32 total;
    const Picture& picture = pictures[blockIdx.x];
    u32 before = 0;
    bool unclear = false;
    for (u32 first = 0; first < picture.pieces; first += blockDim.x) {
        const u32 number = first + threadIdx.x;
        const bool exists = number < picture.pieces;
        const u32 blocks = exists ? picture.counts[number] : 0;
        const u32 sum = block_scan(blocks, scratch);
        if (exists) {
            picture.before[number] = before + sum - blocks;
            unclear |= number > 0 && picture.starts[number] != picture.ends[number - 1] && !Piece(picture, number).is_first;
        }
        if (threadIdx.x == blockDim.x - 1) total = sum;
        __syncthreads();
        before += total;
    }
    if (unclear) atomicOr(&picture.finding->faults, Finding::UNCLEAR);
}

// Writes the coefficients into zeros, and in place of those for DC their differences. Grid: x =
// blocks, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_coefficients(const Picture* pictures) {
    __shared__ __align__(16) Steps steps[MAX_CODES];
    const Picture& picture = pictures[blockIdx.y];
    const u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (blockIdx.x * THREADS >= picture.pieces) return;
    load_steps(picture, steps);
    if (number >= picture.pieces) return;
    const Piece piece(picture, number);
    const Interval interval = picture.intervals[piece.interval];
    // The blocks before this piece, and all, of the interval. Padding may look like further ones.
    u32 block = picture.before[number] - picture.before[interval.first_piece];
    const u32 blocks = picture.blocks_in(piece.interval);
    if (block >= blocks) return;
    const u64 first = picture.blocks_before(piece.interval);
    short* dc = picture.dc + first;
    short* coefficients = picture.coefficients + first * 64;
    Walk walk(picture.data, interval.end, picture.codes, steps, Place::unpacked(picture.starts[number]));
    while (walk.is_before(piece.end)) {
        walk.fill();
        const u32 step = walk.peek(), leads = walk.known + coefficients_of(step);
        if (step == 0 || leads > 64) {
            atomicOr(&picture.finding->faults, Finding::DAMAGED);
            return;
        }
        if (const u32 size = size_of(step)) {
            // A value is negative if its first bit is 0 (EXTEND in T.81, F.2.2.1).
            const int bits = int(walk.buffer << length_of(step) >> (64 - size)), value = bits >> (size - 1) ? bits : bits - (1 << size) + 1;
            if (walk.known == 0) {
                dc[block] = short(value);
            } else {
                coefficients[u64(block) * 64 + leads - 1] = short(value);
            }
        }
        block += walk.take(step, leads);
        if (block == blocks) {
            if (walk.is_at_end()) {
                atomicAdd(&picture.finding->intervals, 1);
            } else {
                atomicOr(&picture.finding->faults, Finding::DAMAGED);
            }
            return;
        }
    }
}

// A sum that begins anew at restarts. `begins`: it began within this segment, so that sums before
// it do not count.
struct Segment {
    int sum;
    bool begins;

    __device__ __forceinline__ Segment behind(const Segment& before) const {
        return {begins ? sum : sum + before.sum, begins || before.begins};
    }
    __device__ __forceinline__ Segment from(u32 lane) const {
        return {__shfl_sync(FULL_WARP, sum, lane), bool(__shfl_sync(FULL_WARP, int(begins), lane))};
    }
    // Returns that of this lane and all lanes before it.
    __device__ __forceinline__ Segment scanned() const {
        const u32 lane = threadIdx.x % WARP;
        Segment all = *this;
#pragma unroll
        for (u32 step = 1; step < WARP; step *= 2) {
            const Segment before = {__shfl_up_sync(FULL_WARP, all.sum, step), bool(__shfl_up_sync(FULL_WARP, int(all.begins), step))};
            if (lane >= step) all = all.behind(before);
        }
        return all;
    }
};

// Adds up the differences of the DC coefficients of each component, from one restart to the next. A
// block that is not part of its component gets the coefficient of the last one before it that is.
// Grid: x = components, y = pictures. Block: 1024.
extern "C" __global__ void __launch_bounds__(1024) jpeg_dc(const Picture* pictures) {
    __shared__ Segment of_warp[WARP];
    const Picture& picture = pictures[blockIdx.y];
    if (blockIdx.x >= picture.components) return;
    const Component component = picture.component[blockIdx.x];
    const u32 blocks = component.mcu_across * component.mcu_down, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int before = 0;
    bool excessive = false;
    for (u32 first = 0; first < picture.mcus; first += blockDim.x) {
        const u32 mcu = first + threadIdx.x;
        short* dc = picture.dc + u64(mcu) * picture.mcu_blocks + component.first;
        Segment mine = {0, mcu % picture.interval_mcus == 0};
        if (mcu < picture.mcus) {
            for (u32 i = 0; i < blocks; ++i) mine.sum += dc[i];
        }
        const Segment in_warp = mine.scanned();
        if (lane == WARP - 1) of_warp[warp] = in_warp;
        __syncthreads();
        const Segment warps = of_warp[lane].scanned();
        __syncthreads();
        // The sum before this warp, and that before this thread.
        Segment ahead = warp > 0 ? warps.from(warp - 1).behind({before, false}) : Segment{before, false};
        const Segment all = in_warp.behind(ahead);
        int value = mine.begins ? 0 : all.sum - mine.sum, kept = value;
        if (mcu < picture.mcus) {
            const u32 x = mcu % picture.mcus_across * component.mcu_across, y = mcu / picture.mcus_across * component.mcu_down;
            for (u32 i = 0; i < blocks; ++i) {
                value += dc[i];
                if (x + i % component.mcu_across < component.across && y + i / component.mcu_across < component.down) {
                    kept = value;
                    excessive |= kept != short(kept);
                }
                dc[i] = short(kept);
            }
        }
        before = warps.from(WARP - 1).behind({before, false}).sum;
    }
    if (excessive) atomicOr(&picture.finding->faults, Finding::EXCESSIVE);
}
