// CUDA C for the host compiler: keywords, built-in variables, barriers, shuffles, atomics.
//
//   __global__ __device__        nothing                 threadIdx ...   set before each resume
//   __shared__                   a section of its own, filled with 0xCD before every block
//   __syncthreads()              ticket barrier over the block's fibers
//   __shfl_*_sync, __ballot_sync through one slot per lane, between two warp barriers
//   atomicAdd ...                plain: one operating-system thread runs all fibers
//
// Not here: cooperative groups, clusters, TMA, textures, and inline PTX, which has to sit in
// wrapper functions with a version for the host (spark_warp.cuh).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fibers.h"

#define SPARK_ON_HOST 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __constant__ static
#define __shared__ static __attribute__((section("spark_shared")))
#define __align__(n) __attribute__((aligned(n)))

using spark_on_host::blockDim;
using spark_on_host::blockIdx;
using spark_on_host::gridDim;
using spark_on_host::threadIdx;

static const int warpSize = 32;

struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }

static inline void __syncthreads() { spark_on_host::block_barrier(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { spark_on_host::warp_barrier(mask); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  static_assert(sizeof(T) <= spark_on_host::LANE_BYTES, "a lane's slot is smaller than this");
  T result;
  int base = spark_on_host::lane() / width * width;
  spark_on_host::exchange(mask, &value, sizeof(T), base + ((lane % width) + width) % width, &result);
  return result;
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  int lane = spark_on_host::lane();
  int other = lane ^ lanes;
  return __shfl_sync(mask, value, other / width == lane / width ? other : lane, 32);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  int lane = spark_on_host::lane();
  int other = lane + static_cast<int>(lanes);
  return __shfl_sync(mask, value, other / width == lane / width ? other : lane, 32);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  int lane = spark_on_host::lane();
  int other = lane - static_cast<int>(lanes);
  return __shfl_sync(mask, value, other >= lane / width * width ? other : lane, 32);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return spark_on_host::ballot(mask, predicate != 0);
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
static inline int __syncthreads_count(int predicate) { return spark_on_host::block_count(predicate != 0); }
static inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
static inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

template <class T>
static inline T atomicAdd(T* at, T value) { T old = *at; *at = old + value; return old; }
template <class T>
static inline T atomicSub(T* at, T value) { T old = *at; *at = old - value; return old; }
template <class T>
static inline T atomicMax(T* at, T value) { T old = *at; if (value > old) *at = value; return old; }
template <class T>
static inline T atomicMin(T* at, T value) { T old = *at; if (value < old) *at = value; return old; }
template <class T>
static inline T atomicExch(T* at, T value) { T old = *at; *at = value; return old; }
template <class T>
static inline T atomicOr(T* at, T value) { T old = *at; *at = old | value; return old; }
template <class T>
static inline T atomicAnd(T* at, T value) { T old = *at; *at = old & value; return old; }
template <class T>
static inline T atomicCAS(T* at, T expected, T value) { T old = *at; if (old == expected) *at = value; return old; }

template <class To, class From>
static inline To spark_bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}
static inline float __uint_as_float(unsigned bits) { return spark_bits_as<float>(bits); }
static inline unsigned __float_as_uint(float value) { return spark_bits_as<unsigned>(value); }
static inline float __int_as_float(int bits) { return spark_bits_as<float>(bits); }
static inline int __float_as_int(float value) { return spark_bits_as<int>(value); }
template <class T>
static inline T __ldg(const T* at) { return *at; }
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
// The C library declares functions of these names and does not export them.
#define __expf std::exp
#define __logf std::log
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float value) { return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f; }
template <class T>
static inline T min(T a, T b) { return b < a ? b : a; }
template <class T>
static inline T max(T a, T b) { return a < b ? b : a; }
using std::fabs;
using std::floor;
