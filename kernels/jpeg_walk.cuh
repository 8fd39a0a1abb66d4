// A thread's walk along the entropy-coded data of a baseline JPEG, from any place on, Huffman code
// by Huffman code.

#pragma once
#include "common.cuh"

// Bytes of a piece of the data, including stuffing, one for each thread. `PIECE` in the lanes.
constexpr u32 PIECE = 256;

// Codes up to this length are looked up in a table.
constexpr u32 SHORT = 10;

constexpr u32 LONGEST = 16;

// So many of the 16 bits that begin with a longer code have a table, too.
constexpr u32 LONGER = 1024;

// Three components with two codes each (DC and AC). `MAX_CODES` in the lanes.
constexpr u32 MAX_CODES = 6;

// A Huffman code (T.81, annex C). Mirrored by `Code` in the lanes.
struct Code {
    // By length: the exclusive upper bound, left-aligned in 16 bits, of the codes that are no
    // longer.
    u32 end[LONGEST + 1];
    // By length: the difference between the index of a symbol and its code.
    int place[LONGEST + 1];
    u8 symbols[256];
};

// The codes of a picture. Mirrored by `Codes` in the lanes.
struct Codes {
    // The numbers of the codes of a period's blocks, four bits each, the first block's lowest.
    u64 dc, ac;
    // The number of blocks of a period, after one the codes repeat.
    u32 period;
    // The number of codes, and how many of them, the first ones, are for DC.
    u32 number, dc_number;
    u32 unused;
    Code code[MAX_CODES];
};

// Returns whether this byte was stuffed after a data byte of all ones so that there is no marker
// (T.81, F.1.2.3).
__device__ __forceinline__ bool is_stuffing(const u8* data, u32 end, u32 byte) {
    return byte > 0 && byte < end && data[byte] == 0 && data[byte - 1] == 0xff;
}

// The effect of a symbol: the length of its code (5 bits), the number of bits of its value (4
// bits), the number of coefficients passed (5 bits), and whether the block ends there (1 bit). 0:
// no symbol.
__device__ __forceinline__ u16 step(u32 symbol, u32 length, bool is_dc) {
    const u32 run = symbol >> 4, size = symbol & 15;
    if (is_dc) return length | size << 5 | 1 << 9;
    if (size > 0) return length | size << 5 | (run + 1) << 9;
    return length | (run == 15 ? 16 << 9 : 1 << 14);
}
__device__ __forceinline__ u32 length_of(u32 step) { return step & 31; }
__device__ __forceinline__ u32 size_of(u32 step) { return step >> 5 & 15; }
__device__ __forceinline__ u32 coefficients_of(u32 step) { return step >> 9 & 31; }
__device__ __forceinline__ bool ends_block(u32 step) { return step >> 14; }

// Returns the step of the symbol that these 16 bits begin with; 0 if there is no code of at most
// `most` bits.
__device__ __noinline__ u16 find_step(const Code& code, u32 next, u32 most, bool is_dc) {
    for (u32 length = 1; length <= most; ++length) {
        if (next < code.end[length]) {
            const int place = int(next >> (LONGEST - length)) + code.place[length];
            return step(code.symbols[place & 255], length, is_dc);
        }
    }
    return 0;
}

// The steps of a code's symbols.
struct Steps {
    // By `SHORT` bits, the step of the symbol that they begin with; 0 if its code is longer or
    // invalid.
    u16 shorter[1 << SHORT];
    // By 16 bits that begin with a longer code, counted from the first of these on. The rarest
    // codes have no entry.
    u16 longer[LONGER];
};

// Fills a part of the steps of each code; together, `threads` threads fill all.
__device__ __forceinline__ void make_steps(const Codes& codes, Steps* steps, u32 thread, u32 threads) {
    constexpr u32 EACH = (1 << SHORT) + LONGER;
    for (u32 i = thread; i < codes.number * EACH; i += threads) {
        const u32 number = i / EACH, entry = i % EACH;
        const Code& code = codes.code[number];
        const bool is_dc = number < codes.dc_number;
        if (entry < 1 << SHORT) {
            steps[number].shorter[entry] = find_step(code, entry << (LONGEST - SHORT), SHORT, is_dc);
        } else {
            const u32 bits = code.end[SHORT] + (entry - (1 << SHORT));
            steps[number].longer[entry - (1 << SHORT)] = bits < 1 << LONGEST ? find_step(code, bits, LONGEST, is_dc) : 0;
        }
    }
}

// The place of a walk: before bit `position` of the data, counting stuffing; in the block with
// index `block` in its period, after `known` of its coefficients. The next byte is never a stuffed
// one.
struct Place {
    u32 position, block, known;

    __device__ __forceinline__ u64 packed() const { return u64(position) << 32 | block << 8 | known; }
    static __device__ __forceinline__ Place unpacked(u64 packed) {
        return {u32(packed >> 32), u32(packed) >> 8, u32(packed) & 255};
    }
};

// A walk along data up to byte `end`, and along zeros after that. The data begin at a multiple of
// four bytes, and `BEYOND` more can be read.
struct Walk {
    static constexpr u32 BEYOND = 32;

    const u8* data;
    const Code* codes;
    const Steps* steps;
    u64 dc, ac, buffer;
    u32 end, period, held, at, block, known;
    // The numbers of the block's codes, that for DC lowest.
    u32 numbers;
    // The words of the next byte and of the one four bytes further on, the latter loaded well
    // before its first use.
    u32 low, high;

    __device__ __forceinline__ Walk(const u8* data, u32 end, const Codes& codes, const Steps* steps, Place place)
        : data(data), codes(codes.code), steps(steps), dc(codes.dc), ac(codes.ac), buffer(0), end(end), period(codes.period), held(0),
          at(place.position / 8), known(place.known) {
        begin(place.block);
        low = word(0), high = word(1);
        fill();
        skip(place.position % 8);
    }

    // Goes on in this block of the period.
    __device__ __forceinline__ void begin(u32 number) {
        block = number;
        numbers = (dc >> (4 * number) & 15) | (ac >> (4 * number) & 15) << 4;
    }

    // Returns a word of the data, counted from that of the next byte.
    __device__ __forceinline__ u32 word(u32 number) const { return reinterpret_cast<const u32*>(data)[at / 4 + number]; }

    // Fills the buffer with at least 32 bits: up to four bytes at a time, no further than to the
    // first one before stuffing.
    __device__ __forceinline__ void fill() {
        while (held < 32) {
            const u32 left = at < end ? end - at : 0;
            u32 next = __funnelshift_r(low, high, at % 4 * 8);
            if (left < 4) next &= (1u << 8 * left) - 1;
            // The lowest bit that is set is exact: that of the first byte of all ones.
            const u32 ones = (~next - 0x01010101u) & next & 0x80808080u;
            const u32 bytes = ones ? __ffs(ones) / 8 : 4, before = at / 4;
            buffer |= u64(__byte_perm(next, 0, 0x0123) & ~0u << (32 - 8 * bytes)) << (32 - held);
            held += 8 * bytes;
            at += bytes + (ones != 0);
            if (at / 4 > before) {
                low = at / 4 == before + 1 ? high : word(0);
                high = word(1);
            }
        }
    }

    __device__ __forceinline__ void skip(u32 bits) {
        buffer <<= bits;
        held -= bits;
    }

    // Returns the position: back from the next byte, over the held bits and the stuffing among
    // them.
    __device__ __forceinline__ u32 position() const {
        constexpr u64 LOWER = 0x7f7f7f7f7f7f7f7full;
        const u32 whole = held / 8, part = held % 8;
        // The highest bit of each whole byte of all ones.
        const u64 others = ~(buffer >> (64 - held)) | ~0ull << 8 * whole;
        const u64 ones = ~(((others & LOWER) + LOWER) | others | LOWER);
        u32 byte = at - whole - __popcll(ones);
        if (part == 0) return byte * 8;
        --byte;
        if (is_stuffing(data, end, byte)) --byte;
        return byte * 8 + 8 - part;
    }

    __device__ __forceinline__ Place place() const { return {position(), block, known}; }

    // Returns whether the walk is before this byte. The first test ignores stuffing among the held
    // bits, which only moves the position back.
    __device__ __forceinline__ bool is_before(u32 byte) const { return at * 8 - held < byte * 8 || position() < byte * 8; }

    // Returns the step of the next symbol, 0 if there is none; the buffer must have been filled.
    __device__ __forceinline__ u32 peek() const {
        const bool is_dc = known == 0;
        const u32 number = is_dc ? numbers & 15 : numbers >> 4;
        const u32 step = steps[number].shorter[buffer >> (64 - SHORT)];
        if (step) return step;
        const Code& code = codes[number];
        const u32 bits = u32(buffer >> 48), rank = bits - code.end[SHORT];
        return rank < LONGER ? steps[number].longer[rank] : find_step(code, bits, LONGEST, is_dc);
    }

    // Takes a symbol with this step and its value, up to so many known coefficients; returns the
    // number of blocks that end, 0 or 1.
    __device__ __forceinline__ u32 take(u32 step, u32 leads) {
        skip(length_of(step) + size_of(step));
        const bool ends = leads == 64 || ends_block(step);
        known = ends ? 0 : leads;
        if (ends) begin(block + 1 == period ? 0 : block + 1);
        return ends;
    }

    // Passes a symbol; returns the number of blocks that end, 0 or 1. If there is no symbol, one
    // bit is skipped as if an MCU began after it.
    __device__ __forceinline__ u32 next(bool& wrong) {
        fill();
        const u32 step = peek(), leads = known + coefficients_of(step);
        if (step == 0 || leads > 64) {
            wrong = true;
            skip(1);
            known = 0;
            begin(0);
            return 0;
        }
        return take(step, leads);
    }

    // Returns whether the walk has ended as in intact data: after a block, within the last data
    // byte, with only padding left.
    __device__ __forceinline__ bool is_at_end() const {
        const u32 last = end - 1 - is_stuffing(data, end, end - 1), here = position();
        return known == 0 && here > last * 8 && here <= end * 8;
    }
};
