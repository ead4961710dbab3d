// The instructions of spark_warp.cuh, worked out by the lanes of a warp together.
//
// Fragment layouts as in the PTX ISA manual, "Matrix fragments for mma.m16n8k16" and
// "ldmatrix". With lane = 4 * group + part:
//   A  register r holds rows group + 8 * (r & 1), columns 2 * part + 8 * (r >> 1) and + 1
//   B  register r holds rows 2 * part + 8 * r and + 1, column group
//   C  values 0, 1: row group, columns 2 * part and + 1; values 2, 3: row group + 8
// Products of bf16 and of f16 are exact in f32; the sum runs over k in order, in f32. Hardware sums in
// another order, so results agree to rounding, not to the bit.
#pragma once

#include "cuda_on_host.h"

namespace spark_on_host {
inline float bf16_half(unsigned pair, int which) {
  return __uint_as_float(which == 0 ? pair << 16 : pair & 0xffff0000u);
}

inline float f16_half(unsigned pair, int which) {
  unsigned half = which == 0 ? pair & 0xffffu : pair >> 16;
  unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0x1fu) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
  float value = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // 2^-24
  return sign == 0 ? value : -value;
}

// D = A * B + C, of pairs whose halves `half` reads.
inline void mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], const float c[4],
                         float (*half)(unsigned, int)) {
  struct Fragment { unsigned a[4], b[2]; };
  static_assert(32 * sizeof(Fragment) <= WARP_SCRATCH_BYTES, "scratch is too small");
  Fragment* fragments = reinterpret_cast<Fragment*>(warp_scratch());
  int lane = spark_on_host::lane();
  std::memcpy(fragments[lane].a, a, sizeof fragments[lane].a);
  std::memcpy(fragments[lane].b, b, sizeof fragments[lane].b);
  __syncwarp();
  int group = lane / 4, part = lane % 4;
  float out[4];
  for (int i = 0; i < 4; ++i) {
    int row = group + 8 * (i / 2), column = 2 * part + i % 2;
    float sum = c[i];
    for (int k = 0; k < 16; ++k) {
      int k_part = k % 8 / 2, k_half = k / 8;
      unsigned a_pair = fragments[4 * (row % 8) + k_part].a[row / 8 + 2 * k_half];
      unsigned b_pair = fragments[4 * column + k_part].b[k_half];
      sum += half(a_pair, k % 2) * half(b_pair, k % 2);
    }
    out[i] = sum;
  }
  __syncwarp();
  std::memcpy(d, out, sizeof out);
}
}  // namespace spark_on_host

#define SPARK_DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(spark_on_host::dynamic_shared())

static inline void mma_m16n8k16_bf16(float d[4], const unsigned a[4], const unsigned b[2], const float c[4]) {
  spark_on_host::mma_m16n8k16(d, a, b, c, spark_on_host::bf16_half);
}

static inline void mma_m16n8k16_f16(float d[4], const unsigned a[4], const unsigned b[2], const float c[4]) {
  spark_on_host::mma_m16n8k16(d, a, b, c, spark_on_host::f16_half);
}

static inline void load_matrix_x4(unsigned r[4], const void* row) {
  const void** rows = reinterpret_cast<const void**>(spark_on_host::warp_scratch());
  int lane = spark_on_host::lane();
  rows[lane] = row;
  __syncwarp();
  for (int tile = 0; tile < 4; ++tile) {
    const char* source = static_cast<const char*>(rows[8 * tile + lane / 4]);
    std::memcpy(&r[tile], source + 4 * (lane % 4), 4);
  }
  __syncwarp();
}

static inline void load_matrix_x4_transposed(unsigned r[4], const void* row) {
  const void** rows = reinterpret_cast<const void**>(spark_on_host::warp_scratch());
  int lane = spark_on_host::lane();
  rows[lane] = row;
  __syncwarp();
  for (int tile = 0; tile < 4; ++tile) {
    unsigned short halves[2];
    for (int i = 0; i < 2; ++i) {
      const char* source = static_cast<const char*>(rows[8 * tile + lane % 4 * 2 + i]);
      std::memcpy(&halves[i], source + 2 * (lane / 4), 2);
    }
    r[tile] = halves[0] | static_cast<unsigned>(halves[1]) << 16;
  }
  __syncwarp();
}

static inline void copy_16_async(void* to, const void* from) { spark_on_host::copy_later(to, from, 16); }
static inline void copy_16_async_or_zeros(void* to, const void* from, unsigned n_bytes) {
  std::memset(static_cast<char*>(to) + n_bytes, 0, 16 - n_bytes);
  if (n_bytes > 0) spark_on_host::copy_later(to, from, n_bytes);
}
static inline void commit_copies() {}
static inline void wait_copies() { spark_on_host::wait_copies_of_thread(); }
// Copies have no groups here: those of the last one are there early.
static inline void wait_copies_but_one() { spark_on_host::wait_copies_of_thread(); }
