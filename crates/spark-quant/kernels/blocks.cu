// Block formats on the device: the bits of the crate's definition, one value after another.
//
//   largest_magnitude_f32   bits of the largest |x|; infinity or above if a value is not finite
//   nvfp4_from_f32          16 values, E4M3 scale, one f32 scale for all: ts = largest / 2688
//                             s = e4m3(amax / (6 ts))      code = e2m1(x / (s ts))
//   f32_from_nvfp4          e2m1 * (s * ts)
//   mxfp4_from_f32, mxfp8_from_f32    32 values, scale 2^(exponent of amax - emax of the element)
//   f32_from_mxfp4, f32_from_mxfp8
//   swizzle_scales, unswizzle_scales  row-major scales and the 128x4 tiles of the tensor cores
//
// A thread takes four neighbouring values, so that a warp reads and writes whole lines; the four or
// eight threads of a block of values find its largest magnitude by shuffles. Rounding is to nearest,
// ties to even. Lengths are multiples of the block. Only plain arithmetic is used: the conversion
// instructions of Blackwell would save work that memory hides.

#include "spark_warp.cuh"

constexpr unsigned ALL_LANES = 0xFFFFFFFFu;
constexpr unsigned INFINITY_BITS = 0x7F800000u;

__device__ inline unsigned long long thread_number() {
  return static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Every thread takes part in the shuffles, also those behind the end.
__device__ inline float4 four_or_zeros(const float4* values, unsigned long long i, unsigned long long n_fours) {
  if (i < n_fours) return values[i];
  return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

__device__ inline unsigned magnitude_bits(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

__device__ inline unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }

__device__ inline unsigned largest_of(float4 x) {
  return larger(larger(magnitude_bits(x.x), magnitude_bits(x.y)),
                larger(magnitude_bits(x.z), magnitude_bits(x.w)));
}

// Over the `n_threads` neighbours that share a block.
__device__ inline unsigned largest_of_threads(unsigned bits, int n_threads) {
  for (int distance = 1; distance < n_threads; distance *= 2) {
    bits = larger(bits, __shfl_xor_sync(ALL_LANES, bits, distance));
  }
  return bits;
}

// ---- elements ----

// E2M1 code: the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6. At a tie the even code takes it.
__device__ inline unsigned e2m1_code(float quotient, float value) {
  float x = __uint_as_float(magnitude_bits(quotient));
  unsigned code = (x > 0.25f) + (x >= 0.75f) + (x > 1.25f) + (x >= 1.75f) + (x > 2.5f) + (x >= 3.5f) + (x > 5.0f);
  return code | (__float_as_uint(value) >> 31 << 3);
}

__device__ inline float e2m1_value(unsigned code) {
  unsigned step = code & 7u;
  // From 1 on two codes per octave; 0.5 is the only subnormal.
  unsigned bits = step < 2 ? step * __float_as_uint(0.5f) : (step + (126u << 1)) << 22;
  return __uint_as_float(bits | (code >> 3 & 1u) << 31);
}

// E4M3 code of a magnitude up to 448.
__device__ inline unsigned e4m3_magnitude_code(float x) {
  unsigned bits = __float_as_uint(x);
  // Below 2^-6 codes count steps of 2^-9: a sum with 2^14 ends in that count.
  if (bits < 121u << 23) return __float_as_uint(x + 16384.0f) - __float_as_uint(16384.0f);
  unsigned rounded = bits + 0x7FFFFu + (bits >> 20 & 1u);
  return (rounded >> 20) - (120u << 3);
}

__device__ inline float e4m3_value(unsigned code) {
  unsigned step = code & 0x7Fu;
  if (step == 0x7Fu) return __uint_as_float(0x7FC00000u);
  float magnitude = step < 8 ? step * 0.001953125f : __uint_as_float((step + (120u << 3)) << 20);
  return __uint_as_float(__float_as_uint(magnitude) | (code >> 7 & 1u) << 31);
}

__device__ inline unsigned e4m3_code(float x) {
  float magnitude = __uint_as_float(magnitude_bits(x));
  unsigned code = e4m3_magnitude_code(magnitude < 448.0f ? magnitude : 448.0f);
  return code | __float_as_uint(x) >> 31 << 7;
}

// ---- tensor ----

extern "C" __global__ void __launch_bounds__(256)
largest_magnitude_f32(unsigned* largest, const float4* values, unsigned long long n_fours) {
  unsigned bits = 0;
  unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = thread_number(); i < n_fours; i += stride) {
    bits = larger(bits, largest_of(values[i]));
  }
  bits = largest_of_threads(bits, 32);
  if (threadIdx.x % 32 == 0) atomicMax(largest, bits);
}

// ---- NVFP4 ----

__device__ inline float tensor_scale(unsigned largest) {
  float scale = __uint_as_float(largest) / (6.0f * 448.0f);
  float smallest = __uint_as_float((127u - 112u) << 23);
  if (largest == 0) return 1.0f;
  return scale > smallest ? scale : smallest;
}

extern "C" __global__ void __launch_bounds__(256)
nvfp4_from_f32(unsigned short* codes, unsigned char* scales, const float4* values, const unsigned* largest,
               unsigned long long n_fours) {
  unsigned long long i = thread_number();
  float4 x = four_or_zeros(values, i, n_fours);
  unsigned amax = largest_of_threads(largest_of(x), 4);
  // A tensor that is not finite has no scale; whoever reads the largest magnitude learns it.
  if (i >= n_fours || *largest >= INFINITY_BITS) return;
  float tensor = tensor_scale(*largest);
  float raw = __uint_as_float(amax) / (6.0f * tensor);
  raw = raw > 0.001953125f ? raw : 0.001953125f;
  raw = raw < 448.0f ? raw : 448.0f;
  unsigned scale = amax == 0 ? 0x38u : e4m3_magnitude_code(raw);
  float divisor = e4m3_value(scale) * tensor;
  codes[i] = static_cast<unsigned short>(e2m1_code(x.x / divisor, x.x) | e2m1_code(x.y / divisor, x.y) << 4 |
                                         e2m1_code(x.z / divisor, x.z) << 8 | e2m1_code(x.w / divisor, x.w) << 12);
  if (i % 4 == 0) scales[i / 4] = static_cast<unsigned char>(scale);
}

__device__ inline float4 four_e2m1(unsigned codes, float factor) {
  return make_float4(e2m1_value(codes) * factor, e2m1_value(codes >> 4) * factor, e2m1_value(codes >> 8) * factor,
                     e2m1_value(codes >> 12) * factor);
}

extern "C" __global__ void __launch_bounds__(256)
f32_from_nvfp4(float4* values, const unsigned short* codes, const unsigned char* scales, float tensor,
               unsigned long long n_fours) {
  unsigned long long i = thread_number();
  if (i < n_fours) values[i] = four_e2m1(codes[i], e4m3_value(scales[i / 4]) * tensor);
}

// ---- MX ----

// E8M0 code of the floor rule; `emax` is the exponent of the element's largest value. A block that is
// not finite has the scale NaN, and whoever reads it NaN: no number would be right.
__device__ inline unsigned e8m0_code(unsigned amax, unsigned emax) {
  if (amax >= INFINITY_BITS) return 255u;
  unsigned exponent = amax >> 23;
  return exponent > emax ? exponent - emax : 0u;
}

// 2^(127 - code), for codes up to 254: the last one is the only subnormal.
__device__ inline float e8m0_reciprocal(unsigned code) {
  return __uint_as_float(code == 254u ? 0x00400000u : (254u - code) << 23);
}

__device__ inline float e8m0_value(unsigned code) {
  if (code == 255u) return __uint_as_float(0x7FC00000u);
  return __uint_as_float(code == 0u ? 0x00400000u : code << 23);
}

__device__ inline float4 times(float4 x, float factor) {
  return make_float4(x.x * factor, x.y * factor, x.z * factor, x.w * factor);
}

// Values by the reciprocal of their block's scale. Of a block without one nothing is kept.
__device__ inline float4 scaled(float4 x, unsigned code) {
  if (code == 255u) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  return times(x, e8m0_reciprocal(code));
}

extern "C" __global__ void __launch_bounds__(256)
mxfp4_from_f32(unsigned short* codes, unsigned char* scales, const float4* values, unsigned long long n_fours) {
  unsigned long long i = thread_number();
  float4 x = four_or_zeros(values, i, n_fours);
  unsigned amax = largest_of_threads(largest_of(x), 8);
  if (i >= n_fours) return;
  unsigned scale = e8m0_code(amax, 2u);
  x = scaled(x, scale);
  codes[i] = static_cast<unsigned short>(e2m1_code(x.x, x.x) | e2m1_code(x.y, x.y) << 4 | e2m1_code(x.z, x.z) << 8 |
                                         e2m1_code(x.w, x.w) << 12);
  if (i % 8 == 0) scales[i / 8] = static_cast<unsigned char>(scale);
}

extern "C" __global__ void __launch_bounds__(256)
mxfp8_from_f32(unsigned* codes, unsigned char* scales, const float4* values, unsigned long long n_fours) {
  unsigned long long i = thread_number();
  float4 x = four_or_zeros(values, i, n_fours);
  unsigned amax = largest_of_threads(largest_of(x), 8);
  if (i >= n_fours) return;
  unsigned scale = e8m0_code(amax, 8u);
  x = scaled(x, scale);
  codes[i] = e4m3_code(x.x) | e4m3_code(x.y) << 8 | e4m3_code(x.z) << 16 | e4m3_code(x.w) << 24;
  if (i % 8 == 0) scales[i / 8] = static_cast<unsigned char>(scale);
}

extern "C" __global__ void __launch_bounds__(256)
f32_from_mxfp4(float4* values, const unsigned short* codes, const unsigned char* scales, unsigned long long n_fours) {
  unsigned long long i = thread_number();
  if (i < n_fours) values[i] = four_e2m1(codes[i], e8m0_value(scales[i / 8]));
}

extern "C" __global__ void __launch_bounds__(256)
f32_from_mxfp8(float4* values, const unsigned* codes, const unsigned char* scales, unsigned long long n_fours) {
  unsigned long long i = thread_number();
  if (i >= n_fours) return;
  unsigned four = codes[i];
  float4 x = make_float4(e4m3_value(four), e4m3_value(four >> 8), e4m3_value(four >> 16), e4m3_value(four >> 24));
  values[i] = times(x, e8m0_value(scales[i / 8]));
}

// ---- scales of the tensor cores ----

// Row and column of byte `i` of the tiles; `n_tiles` lie side by side.
__device__ inline void row_and_column(unsigned long long i, unsigned n_tiles, unsigned long long* row, unsigned* column) {
  unsigned inside = static_cast<unsigned>(i % 512);
  unsigned long long tile = i / 512;
  *row = tile / n_tiles * 128 + inside % 16 / 4 * 32 + inside / 16;
  *column = static_cast<unsigned>(tile % n_tiles) * 4 + inside % 4;
}

extern "C" __global__ void __launch_bounds__(256)
swizzle_scales(unsigned char* tiles, const unsigned char* scales, unsigned n_rows, unsigned n_columns,
               unsigned long long n_bytes) {
  unsigned long long i = thread_number();
  if (i >= n_bytes) return;
  unsigned long long row;
  unsigned column;
  row_and_column(i, (n_columns + 3) / 4, &row, &column);
  tiles[i] = row < n_rows && column < n_columns ? scales[row * n_columns + column] : 0;
}

extern "C" __global__ void __launch_bounds__(256)
unswizzle_scales(unsigned char* scales, const unsigned char* tiles, unsigned n_rows, unsigned n_columns,
                 unsigned long long n_bytes) {
  unsigned long long i = thread_number();
  if (i >= n_bytes) return;
  unsigned long long row;
  unsigned column;
  row_and_column(i, (n_columns + 3) / 4, &row, &column);
  if (row < n_rows && column < n_columns) scales[row * n_columns + column] = tiles[i];
}
