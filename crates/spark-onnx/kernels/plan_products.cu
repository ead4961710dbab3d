// Products of a lowered plan, a thread an element: convolution, matrix product, attention.
//
//   y[n, o, h, w] = f(sum over taps and channels of x * weight + bias [+ residual])    plan_conv
//   y[b, m, n]    = f(scale * sum over k of a[b, m, k] * b[b, k, n] + bias ...)        plan_matmul
//   y[b, m, e]    = sum over n of softmax(mask(scale * q k'))[n] * v[b, n, e]          plan_attention, a block a query
//
// Sums are f32, in order. These kernels define what faster ones must give; nothing is tuned. Operands of f32 and of
// f16 have loops of their own, others share one.

#include "plan_math.cuh"

namespace {

struct F32 {
  static __device__ __forceinline__ float load(const unsigned char* at, unsigned, long long index) {
    return reinterpret_cast<const float*>(at)[index];
  }
};

struct F16 {
  static __device__ __forceinline__ float load(const unsigned char* at, unsigned, long long index) {
    return plan_float_of_half(reinterpret_cast<const unsigned short*>(at)[index]);
  }
};

struct Any {
  static __device__ __forceinline__ float load(const unsigned char* at, unsigned storage, long long index) {
    return plan_load(at, storage, index);
  }
};

// sum + x[0] y[0] + x[x_stride] y[y_stride] + ..., n products.
template <class T>
__device__ __forceinline__ float dot_of(float sum, const unsigned char* x, unsigned x_storage, long long x_index,
                                        long long x_stride, const unsigned char* y, unsigned y_storage,
                                        long long y_index, long long y_stride, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    sum += T::load(x, x_storage, x_index) * T::load(y, y_storage, y_index);
    x_index += x_stride;
    y_index += y_stride;
  }
  return sum;
}

__device__ __forceinline__ float dot(float sum, const unsigned char* x, unsigned x_storage, long long x_index,
                                     long long x_stride, const unsigned char* y, unsigned y_storage, long long y_index,
                                     long long y_stride, unsigned n) {
  if (x_storage == PLAN_F32 && y_storage == PLAN_F32) {
    return dot_of<F32>(sum, x, x_storage, x_index, x_stride, y, y_storage, y_index, y_stride, n);
  }
  if (x_storage == PLAN_F16 && y_storage == PLAN_F16) {
    return dot_of<F16>(sum, x, x_storage, x_index, x_stride, y, y_storage, y_index, y_stride, n);
  }
  return dot_of<Any>(sum, x, x_storage, x_index, x_stride, y, y_storage, y_index, y_stride, n);
}

}  // namespace

struct PlanConv {
  PlanView x, y;  // n, c, h, w
  PlanEpilogue epilogue;
  PlanPlace weights;  // [group][tap][in][out]
  unsigned count;     // elements of y
  unsigned channels, height, width;
  unsigned in_height, in_width;
  unsigned in_per_group, out_per_group;
  unsigned kernel[2], stride[2], dilation[2], pad[2];
  unsigned transposed, unused;
};

// The position of the operand that a tap sees from a position of the result; -1 where there is none.
__device__ __forceinline__ int conv_source(const PlanConv& conv, unsigned axis, unsigned position, unsigned tap,
                                           unsigned extent) {
  int at;
  if (conv.transposed) {
    at = static_cast<int>(position + conv.pad[axis]) - static_cast<int>(tap * conv.dilation[axis]);
    if (at < 0 || at % static_cast<int>(conv.stride[axis]) != 0) return -1;
    at /= static_cast<int>(conv.stride[axis]);
  } else {
    at = static_cast<int>(position * conv.stride[axis] + tap * conv.dilation[axis]) - static_cast<int>(conv.pad[axis]);
  }
  return at < static_cast<int>(extent) ? at : -1;
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_conv(PLAN_BLOCKS, PlanConv conv) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= conv.count) return;
  unsigned channel = element % conv.channels, rest = element / conv.channels;
  unsigned column = rest % conv.width;
  rest /= conv.width;
  unsigned row = rest % conv.height, sample = rest / conv.height;
  unsigned group = channel / conv.out_per_group, own = channel % conv.out_per_group;

  const unsigned char* x = plan_read(blocks, conv.x.place);
  const unsigned char* weights = plan_read(blocks, conv.weights);
  const long long* xs = conv.x.strides;
  long long image = sample * xs[0] + static_cast<long long>(group) * conv.in_per_group * xs[1];
  long long n_taps = static_cast<long long>(conv.kernel[0]) * conv.kernel[1];
  float sum = 0.0f;
  for (unsigned ky = 0; ky < conv.kernel[0]; ++ky) {
    int y = conv_source(conv, 0, row, ky, conv.in_height);
    if (y < 0) continue;
    for (unsigned kx = 0; kx < conv.kernel[1]; ++kx) {
      int at = conv_source(conv, 1, column, kx, conv.in_width);
      if (at < 0) continue;
      long long tap = group * n_taps + ky * conv.kernel[1] + kx;
      long long weight = tap * conv.in_per_group * conv.out_per_group + own;
      sum = dot(sum, x, conv.x.place.storage, image + y * xs[2] + at * xs[3], xs[1], weights, conv.weights.storage,
                weight, conv.out_per_group, conv.in_per_group);
    }
  }
  auto index = [&](const long long* strides) {
    return sample * strides[0] + channel * strides[1] + row * strides[2] + column * strides[3];
  };
  // Before the epilogue, whose functions call others: what lives through a call costs registers.
  long long to = index(conv.y.strides);
  float value = plan_epilogue(blocks, conv.epilogue, sum, channel, index(conv.epilogue.residual.strides));
  plan_store(plan_write(blocks, conv.y.place), conv.y.place.storage, to, value);
}

struct PlanMatMul {
  PlanView a, b, y;  // batch axes, then the last two: [m, k], [k, n], [m, n]
  PlanEpilogue epilogue;
  unsigned batch[PLAN_BATCH_AXES];
  unsigned count, m, n, k;
  float scale;
  unsigned unused;
};

extern "C" __global__ void __launch_bounds__(128) plan_matmul(PLAN_BLOCKS, PlanMatMul product) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= product.count) return;
  unsigned column = element % product.n, rest = element / product.n;
  unsigned row = rest % product.m, batch = rest / product.m;
  auto index = [&](const long long* strides, unsigned i, unsigned j) {
    return plan_batch_index(product.batch, strides, batch) + i * strides[PLAN_BATCH_AXES] +
           j * strides[PLAN_BATCH_AXES + 1];
  };
  const PlanView &a = product.a, &b = product.b, &y = product.y;
  float sum = dot(0.0f, plan_read(blocks, a.place), a.place.storage, index(a.strides, row, 0),
                  a.strides[PLAN_BATCH_AXES + 1], plan_read(blocks, b.place), b.place.storage,
                  index(b.strides, 0, column), b.strides[PLAN_BATCH_AXES], product.k);
  sum *= product.scale;
  long long residual = index(product.epilogue.residual.strides, row, column), to = index(y.strides, row, column);
  float value = plan_epilogue(blocks, product.epilogue, sum, column, residual);
  plan_store(plan_write(blocks, y.place), y.place.storage, to, value);
}

// A view whose batch axes are cut in its own way.
struct PlanBatched {
  PlanView view;
  unsigned batch[PLAN_BATCH_AXES];
};

struct PlanAttention {
  PlanBatched q, k, v, y, mask;
  unsigned m, n, d, e;
  unsigned mask_kind;  // 0 none, 1 added, 2 where it is zero the score is `hidden`
  unsigned masked;
  float scale, hidden;
};

__device__ __forceinline__ long long row_index(const PlanBatched& batched, unsigned batch, unsigned row) {
  return plan_batch_index(batched.batch, batched.view.strides, batch) + row * batched.view.strides[PLAN_BATCH_AXES];
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_attention(PLAN_BLOCKS, PlanAttention attention) {
  SPARK_DYNAMIC_SHARED(float, scores);  // of one query, n of them
  __shared__ float parts[PLAN_THREADS / 32];
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned query = blockIdx.x % attention.m, batch = blockIdx.x / attention.m;
  const PlanBatched &q = attention.q, &k = attention.k, &v = attention.v, &y = attention.y, &mask = attention.mask;

  float most = -SPARK_INFINITY, n_nan = 0.0f;
  for (unsigned key = threadIdx.x; key < attention.n; key += PLAN_THREADS) {
    float score = dot(0.0f, plan_read(blocks, q.view.place), q.view.place.storage, row_index(q, batch, query),
                      q.view.strides[PLAN_BATCH_AXES + 1], plan_read(blocks, k.view.place), k.view.place.storage,
                      row_index(k, batch, key), k.view.strides[PLAN_BATCH_AXES + 1], attention.d);
    score *= attention.scale;
    if (attention.mask_kind != 0) {
      long long at = row_index(mask, batch, query) + key * mask.view.strides[PLAN_BATCH_AXES + 1];
      float hides = plan_load(plan_read(blocks, mask.view.place), mask.view.place.storage, at);
      score = attention.mask_kind == 1 ? score + hides : hides != 0.0f ? score : attention.hidden;
    }
    scores[key] = score;
    most = score > most ? score : most;
    n_nan += score != score ? 1.0f : 0.0f;
  }
  most = plan_block_max(most, parts);
  // A query that sees nothing gets zeros; one with a NaN among its scores gets NaN.
  bool hides_all = attention.masked && most == -SPARK_INFINITY;
  if (hides_all) hides_all = plan_block_sum(n_nan, parts) == 0.0f;
  float sum = 0.0f;
  for (unsigned key = threadIdx.x; key < attention.n; key += PLAN_THREADS) {
    float power = expf(scores[key] - most);
    scores[key] = power;
    sum += power;
  }
  // Behind the barriers in here every score is a power.
  sum = plan_block_sum(sum, parts);
  float share = __fdividef(1.0f, sum);
  for (unsigned column = threadIdx.x; column < attention.e; column += PLAN_THREADS) {
    long long at = row_index(v, batch, 0) + column * v.view.strides[PLAN_BATCH_AXES + 1];
    float value = 0.0f;
    for (unsigned key = 0; key < attention.n; ++key) {
      value += scores[key] * plan_load(plan_read(blocks, v.view.place), v.view.place.storage, at);
      at += v.view.strides[PLAN_BATCH_AXES];
    }
    value = hides_all ? 0.0f : value * share;
    long long to = row_index(y, batch, query) + column * y.view.strides[PLAN_BATCH_AXES + 1];
    plan_store(plan_write(blocks, y.view.place), y.view.place.storage, to, value);
  }
}
