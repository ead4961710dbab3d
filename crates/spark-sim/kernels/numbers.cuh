// Elementary functions and random numbers with the bits of the CPU path.
//
//   sin, cos, atan, exp     the polynomials of src/real/polynomial.rs, same operations, same order
//   normal                  Philox4x32-10 and Acklam's quantile, src/random.rs
//
// Additions, multiplications, divisions and square roots are correctly rounded on both sides and
// contraction to fused multiply-adds is switched off (--fmad=false), so the results are the same.
// Tests compare them bit for bit.
#pragma once

namespace sim {

constexpr float GRAVITY = static_cast<float>(9.81);

// `b` where a comparison with NaN decides.
__device__ __forceinline__ float minimum(float a, float b) { return a < b ? a : b; }
__device__ __forceinline__ float maximum(float a, float b) { return b < a ? a : b; }
// NaN becomes `low`.
__device__ __forceinline__ float clamp(float x, float low, float high) { return minimum(maximum(x, low), high); }
__device__ __forceinline__ float absolute(float x) { return fabsf(x); }

// Nearest integer below 2^22 in size: adding 1.5 * 2^23 leaves no fraction bits.
__device__ __forceinline__ float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

struct SinCos { float sin, cos; };

__device__ __forceinline__ SinCos sin_cos(float x) {
  // The lowest bits of `shifted` are those of the number of quarter turns.
  float shifted = x * static_cast<float>(0.63661977236758134308) + 12582912.0f;
  float quarter_turns = shifted - 12582912.0f;
  float r = x - quarter_turns * static_cast<float>(1.5703125);
  r = r - quarter_turns * static_cast<float>(4.837512969970703e-4);
  r = r - quarter_turns * static_cast<float>(7.549789954891882e-8);
  float z = r * r;
  float sin = ((static_cast<float>(-1.9515295891e-4) * z + static_cast<float>(8.3321608736e-3)) * z +
               static_cast<float>(-1.6666654611e-1)) * z * r + r;
  float cos = ((static_cast<float>(2.443315711809948e-5) * z + static_cast<float>(-1.388731625493765e-3)) * z +
               static_cast<float>(4.166664568298827e-2)) * z * z - 0.5f * z + 1.0f;
  unsigned q = __float_as_uint(shifted);
  float turned_sin = q & 1 ? cos : sin;
  float turned_cos = q & 1 ? sin : cos;
  return {__uint_as_float(__float_as_uint(turned_sin) ^ ((q & 2) << 30)),
          __uint_as_float(__float_as_uint(turned_cos) ^ (((q + 1) & 2) << 30))};
}

__device__ __forceinline__ float arc_tangent(float x) {
  float size = absolute(x);
  bool large = size > static_cast<float>(2.414213562373095);
  bool medium = size > static_cast<float>(0.414213562373095);
  float numerator = large ? -1.0f : (medium ? size - 1.0f : size);
  float denominator = large ? size : (medium ? size + 1.0f : 1.0f);
  float offset = large ? static_cast<float>(1.57079632679489661923)
                       : (medium ? static_cast<float>(0.78539816339744830962) : 0.0f);
  float r = numerator / denominator;
  float z = r * r;
  float positive = offset +
      ((((static_cast<float>(8.05374449538e-2) * z + static_cast<float>(-1.38776856032e-1)) * z +
         static_cast<float>(1.99777106478e-1)) * z + static_cast<float>(-3.33329491539e-1)) * z * r + r);
  return x < 0.0f ? -positive : positive;
}

__device__ __forceinline__ float exponential(float x) {
  float limited = x < -87.0f ? -87.0f : x;
  limited = limited > 88.0f ? 88.0f : limited;
  float n = nearest(limited * static_cast<float>(1.44269504088896340736));
  float r = limited - n * static_cast<float>(0.693359375);
  r = r - n * static_cast<float>(-2.12194440e-4);
  float p = static_cast<float>(1.9875691500e-4);
  p = p * r + static_cast<float>(1.3981999507e-3);
  p = p * r + static_cast<float>(8.3334519073e-3);
  p = p * r + static_cast<float>(4.1665795894e-2);
  p = p * r + static_cast<float>(1.6666665459e-1);
  p = p * r + static_cast<float>(5.0000001201e-1);
  float power_of_two = __uint_as_float(static_cast<unsigned>(static_cast<int>(n) + 127) << 23);
  return (p * r * r + r + 1.0f) * power_of_two;
}

__device__ __forceinline__ float hyperbolic_tangent(float x) {
  float e = exponential(-2.0f * absolute(x));
  float t = (1.0f - e) / (1.0f + e);
  return x < 0.0f ? -t : t;
}

// Zero for what is below a nanometre, a nanoradian or the like; see `settled` in src/run/drive.rs.
__device__ __forceinline__ float settled(float x) { return absolute(x) < static_cast<float>(1e-9) ? 0.0f : x; }

__device__ __forceinline__ bool is_finite(float x) { return absolute(x) <= 3.402823466e38f; }

// Block `counter` of a stream: two of the four words, the upper 53 bits of them.
__device__ inline unsigned long long philox_bits(unsigned long long seed, unsigned long long stream, unsigned long long counter) {
  unsigned x0 = static_cast<unsigned>(counter), x1 = static_cast<unsigned>(counter >> 32);
  unsigned x2 = static_cast<unsigned>(stream), x3 = static_cast<unsigned>(stream >> 32);
  unsigned key0 = static_cast<unsigned>(seed), key1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    unsigned long long a = 0xD2511F53ull * x0, b = 0xCD9E8D57ull * x2;
    x0 = static_cast<unsigned>(b >> 32) ^ x1 ^ key0;
    x1 = static_cast<unsigned>(b);
    x2 = static_cast<unsigned>(a >> 32) ^ x3 ^ key1;
    x3 = static_cast<unsigned>(a);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return ((static_cast<unsigned long long>(x0) << 32) | x1) >> 11;
}

__device__ inline double natural_log(double x) {
  long long exponent = 0;
  // x is in (0, 1): halving and doubling are exact and leave the mantissa.
  while (x < 1.0) { x *= 2.0; --exponent; }
  double ratio = (x - 1.0) / (x + 1.0);
  double square = ratio * ratio;
  double series = 0.0;
  for (int i = 19; i >= 0; --i) series = series * square + 1.0 / static_cast<double>(2 * i + 1);
  return static_cast<double>(exponent) * 0.69314718055994530942 + 2.0 * ratio * series;
}

__device__ inline double inverse_normal(double p) {
  bool upper = p > 1.0 - 0.02425;
  double tail = upper ? 1.0 - p : p;
  if (tail < 0.02425) {
    double q = sqrt(-2.0 * natural_log(tail));
    double top = (((((0.0 * q + -7.784894002430293e-3) * q + -3.223964580411365e-1) * q + -2.400758277161838) * q +
                   -2.549732539343734) * q + 4.374664141464968) * q + 2.938163982698783;
    double below = ((7.784695709041462e-3 * q + 3.224671290700398e-1) * q + 2.445134137142996) * q + 3.754408661907416;
    double x = top / (below * q + 1.0);
    return upper ? -x : x;
  }
  double q = tail - 0.5;
  double r = q * q;
  double top = ((((-3.969683028665376e1 * r + 2.209460984245205e2) * r + -2.759285104469687e2) * r +
                 1.38357751867269e2) * r + -3.066479806614716e1) * r + 2.506628277459239;
  double below = (((-5.447609879822406e1 * r + 1.615858368580409e2) * r + -1.556989798598866e2) * r +
                  6.680131188771972e1) * r + -1.328068155288572e1;
  double x = top * q / (below * r + 1.0);
  return upper ? -x : x;
}

// A number of the standard normal distribution.
__device__ inline double normal(unsigned long long seed, unsigned long long stream, unsigned long long counter) {
  double bits = static_cast<double>(philox_bits(seed, stream, counter));
  return inverse_normal((bits + 0.5) * (1.0 / 9007199254740992.0));
}

}  // namespace sim
