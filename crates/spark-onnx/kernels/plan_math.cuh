// Element functions, by the numbers of `src/cuda/codes.rs`: of programs, and behind products.
#pragma once

#include "plan_views.cuh"

#define PLAN_NONE 0u
#define PLAN_CLAMP 1u
#define PLAN_IDENTITY 2u
#define PLAN_ABS 3u
#define PLAN_NEG 4u
#define PLAN_SIGN 5u
#define PLAN_FLOOR 6u
#define PLAN_CEIL 7u
#define PLAN_ROUND 8u
#define PLAN_RECIPROCAL 9u
#define PLAN_SQRT 10u
#define PLAN_EXP 11u
#define PLAN_LOG 12u
#define PLAN_ERF 13u
#define PLAN_NOT 14u
#define PLAN_IS_NAN 15u
#define PLAN_IS_INF 16u
#define PLAN_RELU 17u
#define PLAN_LEAKY_RELU 18u
#define PLAN_THRESHOLDED_RELU 19u
#define PLAN_ELU 20u
#define PLAN_SELU 21u
#define PLAN_CELU 22u
#define PLAN_SIGMOID 23u
#define PLAN_HARD_SIGMOID 24u
#define PLAN_HARD_SWISH 25u
#define PLAN_TANH 26u
#define PLAN_SOFTPLUS 27u
#define PLAN_SOFTSIGN 28u
#define PLAN_MISH 29u
#define PLAN_GELU 30u
#define PLAN_GELU_TANH 31u
#define PLAN_SWISH 32u
#define PLAN_SHRINK 33u
#define PLAN_BIT_NOT 34u

// NaN stays.
__device__ __forceinline__ float plan_clamp(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

__device__ __forceinline__ float plan_sigmoid(float x) { return 1.0f / (1.0f + expf(-plan_clamp(x, -87.0f, 87.0f))); }

__device__ __forceinline__ float plan_elu(float x, float alpha) { return x > 0.0f ? x : alpha * expm1f(x); }

__device__ __forceinline__ float plan_softplus(float x) {
  float rest = log1pf(expf(-fabsf(x)));
  return x > 0.0f ? x + rest : rest;
}

// `a` and `b` are the function's parameters, of which most have none.
__device__ __forceinline__ float plan_function(unsigned code, float x, float a, float b) {
  switch (code) {
    case PLAN_CLAMP: return plan_clamp(x, a, b);
    case PLAN_ABS: return fabsf(x);
    case PLAN_NEG: return -x;
    case PLAN_SIGN: return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
    case PLAN_FLOOR: return floorf(x);
    case PLAN_CEIL: return ceilf(x);
    case PLAN_ROUND: return rintf(x);
    case PLAN_RECIPROCAL: return 1.0f / x;
    case PLAN_SQRT: return sqrtf(x);
    case PLAN_EXP: return expf(x);
    case PLAN_LOG: return logf(x);
    case PLAN_ERF: return erff(x);
    case PLAN_NOT: return x == 0.0f ? 1.0f : 0.0f;
    case PLAN_IS_NAN: return x != x ? 1.0f : 0.0f;
    case PLAN_IS_INF: return fabsf(x) == SPARK_INFINITY ? 1.0f : 0.0f;
    case PLAN_RELU: return x < 0.0f ? 0.0f : x;
    case PLAN_LEAKY_RELU: return x < 0.0f ? a * x : x;
    case PLAN_THRESHOLDED_RELU: return x > a ? x : 0.0f;
    case PLAN_ELU: return plan_elu(x, a);
    case PLAN_SELU: return b * plan_elu(x, a);
    case PLAN_CELU: return x > 0.0f ? x : a * expm1f(x / a);
    case PLAN_SIGMOID: return plan_sigmoid(x);
    case PLAN_HARD_SIGMOID: return plan_clamp(a * x + b, 0.0f, 1.0f);
    case PLAN_HARD_SWISH: return x * plan_clamp(x / 6.0f + 0.5f, 0.0f, 1.0f);
    case PLAN_TANH: return tanhf(x);
    case PLAN_SOFTPLUS: return plan_softplus(x);
    case PLAN_SOFTSIGN: return x / (1.0f + fabsf(x));
    case PLAN_MISH: return x * tanhf(plan_softplus(x));
    case PLAN_GELU: return 0.5f * x * (1.0f + erff(0.70710678118654752f * x));
    case PLAN_GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case PLAN_SWISH: return x * plan_sigmoid(a * x);
    case PLAN_SHRINK: return x < -a ? x + b : x > a ? x - b : 0.0f;
    default: return x;
  }
}

// What happens to a sum before it is stored.
struct PlanEpilogue {
  PlanPlace bias;
  PlanView residual;
  unsigned flags;
  unsigned code;
  float a, b;
};

#define PLAN_HAS_BIAS 1u
#define PLAN_HAS_RESIDUAL 2u
#define PLAN_RESIDUAL_FIRST 4u

__device__ __forceinline__ float plan_epilogue(const PlanBlocks& blocks, const PlanEpilogue& epilogue, float sum,
                                               unsigned channel, long long residual_index) {
  if (epilogue.flags & PLAN_HAS_BIAS) {
    sum += plan_load(plan_read(blocks, epilogue.bias), epilogue.bias.storage, channel);
  }
  float residual = 0.0f;
  if (epilogue.flags & PLAN_HAS_RESIDUAL) {
    const PlanPlace& place = epilogue.residual.place;
    residual = plan_load(plan_read(blocks, place), place.storage, residual_index);
  }
  bool is_first = epilogue.flags & PLAN_RESIDUAL_FIRST;
  if (is_first) sum += residual;
  sum = plan_function(epilogue.code, sum, epilogue.a, epilogue.b);
  return is_first ? sum : sum + residual;
}
