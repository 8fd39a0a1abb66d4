// The common parts of kernels for batches.
//
// They are pictures of one size in device memory, the pictures made from them, and LUTs that follow
// from counts.

#pragma once
#include "counting.cuh"
#include "levels.cuh"

typedef long long i64;

// Pictures of one size, one after another, and the place of their results: the same place, or one
// that does not overlap.
struct Pictures {
    u64 from, to;
    // Bytes from one picture to the next.
    u64 from_pitch, to_pitch;
    // Pixels of a picture.
    u64 pixels;
    ByteOrders orders;

    template <typename S> __device__ __forceinline__ const S* source(u32 number) const {
        return reinterpret_cast<const S*>(from + number * from_pitch);
    }
    template <typename S> __device__ __forceinline__ S* target(u32 number) const {
        return reinterpret_cast<S*>(to + number * to_pitch);
    }
};

// The pixels of a picture as whole packs, and the single pixels before and after them. Packs begin
// at multiples of 16 bytes both in the source and in the target. If there are no such places, all
// pixels are single.
template <typename S, int CHANNELS> struct Run {
    u64 head, packs, count;

    __device__ __forceinline__ Run(const S* from, const S* to, u64 count) : head(0), packs(0), count(count) {
        constexpr u64 STEP = CHANNELS * sizeof(S);
        const u64 a = reinterpret_cast<u64>(from), b = reinterpret_cast<u64>(to);
        while (head < 16 && ((a + head * STEP) % 16 || (b + head * STEP) % 16)) ++head;
        if (head == 16 || head > count) {
            head = count;
        } else {
            packs = (count - head) / Pack<S, CHANNELS>::PIXELS;
        }
    }
    // Returns the number of pixels that are in no pack, and the place of such a pixel.
    __device__ __forceinline__ u64 singles() const { return count - packs * Pack<S, CHANNELS>::PIXELS; }
    __device__ __forceinline__ u64 single(u64 number) const {
        return number < head ? number : number + packs * Pack<S, CHANNELS>::PIXELS;
    }
};

// The rule for LUTs.
struct Rule {
    enum : u32 { EQUALIZE = 0, STRETCH = 1, MATCH = 2 };
    u32 method, strength;
    // For STRETCH: the shares that are given up at the ends, in millionths.
    u32 low, high;
    // For MATCH: the running sums of the reference's counts, plane by plane.
    const u64* reference;
};

// Returns whether a * b >= c * d, in 128 bits.
__device__ __forceinline__ bool at_least(u64 a, u64 b, u64 c, u64 d) {
    const u64 left = __umul64hi(a, b), right = __umul64hi(c, d);
    return left != right ? left > right : a * b >= c * d;
}

// Returns floor(a / b), which must be below 2^17. The estimate is off by at most one.
__device__ __forceinline__ u32 quotient(u64 a, u64 b) {
    u32 q = u32(__fmul_rn(__ull2float_rn(a), __frcp_rn(__ull2float_rn(b))));
    if (q * b > a) {
        --q;
    } else if ((q + 1) * b <= a) {
        ++q;
    }
    return q;
}

// Returns the lowest level for which `reached` holds, or the highest level if there is no such
// level. `reached` must hold for all levels above one for which it holds.
template <typename Reached> __device__ __forceinline__ u32 lowest(u32 levels, Reached reached) {
    u32 low = 0, high = levels - 1;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (reached(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// A level, and the running sum of the counts there.
struct Found {
    u32 level;
    u64 running;
};

// Finds the lowest level with a running sum for which `reached` holds, in each thread.
struct ByThread {
    const u64* running;
    u32 levels;

    template <typename Reached> __device__ __forceinline__ Found operator()(Reached reached) const {
        const u64* sums = running;
        const u32 level = lowest(levels, [=](u32 i) { return reached(sums[i]); });
        return {level, running[level]};
    }
};

// The LUT of one plane, level by level. Exact in integers; see `crates/equalize/src/lut`.
struct Curve {
    enum : u32 { IDENTITY = 3, ALL = 1000000 };
    u32 method, strength, levels;
    // For STRETCH: the levels that become the darkest and the brightest.
    u32 low, high;
    // The count of the lowest level that occurs, and of all levels.
    u64 first, total;
    // For MATCH: the running sums of the reference's counts.
    const u64* reference;

    // `plane` is its number among those with a reference. `search` finds the lowest level with a
    // running sum that has been reached.
    template <typename Search>
    __device__ __forceinline__ Curve(const Rule& rule, u64 total, u32 levels, u32 plane, Search search)
        : method(rule.method), strength(rule.strength), levels(levels), low(0), high(0), total(total),
          reference(rule.reference + (rule.method == Rule::MATCH ? plane * levels : 0)) {
        first = search([](u64 running) { return running > 0; }).running;
        if (method == Rule::EQUALIZE) {
            if (total == first) method = IDENTITY;
        } else if (method == Rule::STRETCH) {
            const u64 dark = rule.low, bright = rule.high;
            low = search([=](u64 running) { return !at_least(total, dark, running, ALL); }).level;
            high = search([=](u64 running) { return at_least(total, bright, total - running, ALL); }).level;
            if (total == 0 || low >= high) method = IDENTITY;
        } else if (total == 0 || reference[levels - 1] == 0) {
            method = IDENTITY;
        }
    }
    // Returns the new level of level `i`, where the running sum is `running`.
    __device__ __forceinline__ u32 level(u32 i, u64 running) const {
        const u64 top = levels - 1;
        u32 level = i;
        if (method == Rule::EQUALIZE) {
            const u64 spread = total - first;
            level = running <= first ? 0 : quotient(2 * (running - first) * top + spread, 2 * spread);
        } else if (method == Rule::STRETCH) {
            const u64 width = high - low, above = min(max(i, low), high) - low;
            level = quotient(2 * above * top + width, 2 * width);
        } else if (method == Rule::MATCH) {
            const u64* r = reference;
            const u64 n = total, m = reference[levels - 1], c = max(running, first);
            level = lowest(levels, [=](u32 j) { return at_least(r[j], n, c, m); });
        }
        return weakened(i, level, strength);
    }
};
