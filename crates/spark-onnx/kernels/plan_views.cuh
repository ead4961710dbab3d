// What every kernel of a plan shares: four blocks of memory, and the views of them that steps read and write.
//
//   arena       results between steps            read and written
//   outputs     a status, then what runs give    read and written
//   inputs      what the caller gives            read
//   constants   weights, tables, programs        read
//
//   element (i0, i1, ...) of a view is the block's byte `offset` + size * (i0 * stride0 + i1 * stride1 + ...)
//
// The structures are those of `src/cuda/structures.rs`, field by field. Values are f32 in registers, whatever
// they are stored as; integers of 64 bits stay what they are.
#pragma once

#include "spark_warp.cuh"

#define PLAN_THREADS 128
#define PLAN_BLOCKS \
  unsigned char *arena, unsigned char *outputs, const unsigned char *inputs, const unsigned char *constants

#define PLAN_MOST_AXES 8
#define PLAN_BATCH_AXES 6

// Stored as.
#define PLAN_F32 0u
#define PLAN_F16 1u
#define PLAN_I64 2u
#define PLAN_U8 3u
#define PLAN_I8 4u

// Why a run has no result, in the second word of the status.
#define PLAN_INDEX_OUTSIDE 1u
#define PLAN_DIVIDED_BY_ZERO 2u

struct PlanPlace {
  unsigned long long offset;  // in bytes, from the start of the block
  unsigned space;             // 0 arena, 1 outputs, 2 inputs, 3 constants
  unsigned storage;
};

struct PlanView {
  PlanPlace place;
  long long strides[PLAN_MOST_AXES];  // in elements
};

// Positions that threads go through: the last axis is the fastest.
struct PlanShape {
  unsigned n, rank;
  unsigned extents[PLAN_MOST_AXES];
};

struct PlanBlocks {
  unsigned char* arena;
  unsigned char* outputs;
  const unsigned char* inputs;
  const unsigned char* constants;
};

__device__ __forceinline__ const unsigned char* plan_read(const PlanBlocks& blocks, const PlanPlace& place) {
  const unsigned char* block = place.space == 0 ? blocks.arena
                               : place.space == 1 ? blocks.outputs
                               : place.space == 2 ? blocks.inputs
                                                  : blocks.constants;
  return block + place.offset;
}

__device__ __forceinline__ unsigned char* plan_write(const PlanBlocks& blocks, const PlanPlace& place) {
  return (place.space == 0 ? blocks.arena : blocks.outputs) + place.offset;
}

#ifdef SPARK_ON_HOST

static inline float plan_float_of_half(unsigned short half) {
  unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1Fu, fraction = half & 0x3FFu;
  if (exponent == 0x1Fu) return __uint_as_float(sign | 0x7F800000u | fraction << 13);
  if (exponent == 0) {
    float value = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // 2^-24
    return __uint_as_float(sign | __float_as_uint(value));
  }
  return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
}

static inline unsigned short plan_half_of_float(float value) {
  unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u;
  bits &= 0x7FFFFFFFu;
  if (bits > 0x7F800000u) return 0x7FFFu;
  if (bits >= 0x477FF000u) return static_cast<unsigned short>(sign | 0x7C00u);
  if (bits < 0x38800000u) {
    // The last bit of a sum with one half is worth 2^-24.
    unsigned sum = __float_as_uint(__uint_as_float(bits) + 0.5f);
    return static_cast<unsigned short>(sign | (sum - 0x3F000000u));
  }
  bits += 0xFFFu + (bits >> 13 & 1u);
  return static_cast<unsigned short>(sign | (bits - 0x38000000u) >> 13);
}

#else

__device__ __forceinline__ float plan_float_of_half(unsigned short half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

__device__ __forceinline__ unsigned short plan_half_of_float(float value) {
  unsigned short half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}

#endif

__device__ __forceinline__ float plan_load(const unsigned char* at, unsigned storage, long long index) {
  switch (storage) {
    case PLAN_F16: return plan_float_of_half(reinterpret_cast<const unsigned short*>(at)[index]);
    case PLAN_I64: return static_cast<float>(reinterpret_cast<const long long*>(at)[index]);
    case PLAN_U8: return static_cast<float>(at[index]);
    case PLAN_I8: return static_cast<float>(reinterpret_cast<const signed char*>(at)[index]);
    default: return reinterpret_cast<const float*>(at)[index];
  }
}

// No step stores bytes, and integers of 64 bits are stored as such.
__device__ __forceinline__ void plan_store(unsigned char* at, unsigned storage, long long index, float value) {
  if (storage == PLAN_F16) {
    reinterpret_cast<unsigned short*>(at)[index] = plan_half_of_float(value);
  } else {
    reinterpret_cast<float*>(at)[index] = value;
  }
}

// One element from a view to another; both hold integers of 64 bits or neither does.
__device__ __forceinline__ void plan_move(unsigned char* to, unsigned to_storage, long long to_index,
                                          const unsigned char* from, unsigned from_storage, long long from_index) {
  if (to_storage == PLAN_I64) {
    reinterpret_cast<long long*>(to)[to_index] = reinterpret_cast<const long long*>(from)[from_index];
  } else {
    plan_store(to, to_storage, to_index, plan_load(from, from_storage, from_index));
  }
}

// Where position `position` of `shape` lies in a view, in elements from its first.
__device__ __forceinline__ long long plan_index(const PlanShape& shape, const long long* strides, unsigned position) {
  long long index = 0;
  for (unsigned axis = shape.rank; axis-- > 0;) {
    unsigned extent = shape.extents[axis];
    index += static_cast<long long>(position % extent) * strides[axis];
    position /= extent;
  }
  return index;
}

// The same of `batch` along the first axes of a view, of which there are always as many.
__device__ __forceinline__ long long plan_batch_index(const unsigned* extents, const long long* strides,
                                                      unsigned batch) {
  long long index = 0;
  for (unsigned axis = PLAN_BATCH_AXES; axis-- > 0;) {
    index += static_cast<long long>(batch % extents[axis]) * strides[axis];
    batch /= extents[axis];
  }
  return index;
}

// Notes why the run has no result; the first to do so is heard.
__device__ __forceinline__ void plan_report(unsigned char* outputs, unsigned step, unsigned reason, long long value,
                                            unsigned extent) {
  unsigned* status = reinterpret_cast<unsigned*>(outputs);
  if (atomicCAS(status, 0u, step + 1) != 0u) return;
  status[1] = reason;
  status[2] = extent;
  *reinterpret_cast<long long*>(outputs + 16) = value;
}

// Over the block's threads, the result in every one of them. `parts` has one place for each warp.
__device__ __forceinline__ float plan_block_sum(float value, float* parts) {
  value = warp_sum(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (unsigned warp = 0; warp < PLAN_THREADS / 32; ++warp) sum += parts[warp];
  return sum;
}

__device__ __forceinline__ float plan_block_max(float value, float* parts) {
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float most = parts[0];
  for (unsigned warp = 1; warp < PLAN_THREADS / 32; ++warp) most = parts[warp] > most ? parts[warp] : most;
  return most;
}
