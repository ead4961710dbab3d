// Warp-level building blocks: the instructions that CUDA C has no name for.
//
//   mma_m16n8k16_bf16(d, a, b, c)   D[16,8] = A[16,16] * B[16,8] + C, bf16 in, f32 out
//   mma_m16n8k16_f16, mma_m16n8k32_e4m3     the same shape of sums, from f16; from E4M3 (8.9 and later)
//   mma_m16n8k64_nvfp4(d, a, b, c, a_scales, b_scales)   NVFP4 with its scales (12.0f, 12.1a)
//   multiply_f16x2(a, b)            two products, each rounded to nearest
//   load_matrix_x4(r, row)          four 8x8 tiles of 16-bit values from shared memory
//   load_matrix_x4_transposed(r, row)       the same, each tile transposed
//   copy_16_async(to, from)         16 bytes from global to shared memory, in the background
//   copy_16_async_or_zeros(to, from, n)   n of the bytes, then zeros
//   commit_copies(), wait_copies()  close a group of copies; wait for all of them
//   wait_copies_but_one()           wait for all groups but the last
//   warp_sum(x), warp_max(x)        over the 32 lanes, the result in every lane
//   SPARK_DYNAMIC_SHARED(type, name)  the shared memory that the launch asks for
//   SPARK_INFINITY                  of type float
//
// Fragment layouts are those of the PTX ISA 9.0 manual, section "Warp-level matrix
// instructions". With nvcc and NVRTC this is inline PTX; the host compiler of the stand-in
// driver defines SPARK_ON_HOST and brings its own versions.
#pragma once

#ifdef SPARK_ON_HOST
#include "spark_warp_on_host.h"
#else

#define SPARK_DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]

__device__ __forceinline__ void mma_m16n8k16_bf16(float d[4], const unsigned a[4],
                                                  const unsigned b[2], const float c[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
}

__device__ __forceinline__ void mma_m16n8k16_f16(float d[4], const unsigned a[4],
                                                 const unsigned b[2], const float c[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
}

__device__ __forceinline__ void mma_m16n8k32_e4m3(float d[4], const unsigned a[4],
                                                  const unsigned b[2], const float c[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
}

// Scales: byte b of a word belongs to values 16b to 16b + 15. Lanes 4g and 4g + 1 name those of
// A's rows g and g + 8, lanes 4g those of B's column g.
__device__ __forceinline__ void mma_m16n8k64_nvfp4(float d[4], const unsigned a[4],
                                                   const unsigned b[2], const float c[4],
                                                   unsigned a_scales, unsigned b_scales) {
  asm volatile(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
      ".f32.e2m1.e2m1.f32.ue4m3 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13}, %14, {0,0}, %15, {0,0};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]), "r"(a_scales), "r"(b_scales));
}

__device__ __forceinline__ unsigned multiply_f16x2(unsigned a, unsigned b) {
  unsigned product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

__device__ __forceinline__ void load_matrix_x4(unsigned r[4], const void* row) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_matrix_x4_transposed(unsigned r[4], const void* row) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void copy_16_async(void* to, const void* from) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_16_async_or_zeros(void* to, const void* from, unsigned n_bytes) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(n_bytes) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ void wait_copies_but_one() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

#endif  // SPARK_ON_HOST

// NVRTC has no <math.h>, and with it no INFINITY.
#define SPARK_INFINITY __int_as_float(0x7f800000)

__device__ __forceinline__ float warp_sum(float x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, x, lanes);
    x = x > other ? x : other;
  }
  return x;
}
