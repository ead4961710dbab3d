// Implicit GEMM: which elements of x a position of y sees, and where results lie.
//
//   M   positions of y: samples x rows x columns             N   channels of y, of one group
//   K   what a position sees: taps x channels of x, in pieces of one or of several channels
//
//   a[m, piece] = x at (row * stride - pad + piece.dy, column * stride - pad + piece.dx), channel by channel; zeros where
//                 that lies outside
//
// Pieces are a table among the constants: for each where it lies, relative to the position, and how many bytes it has. There is
// no division while running, and windows of any kind cost the same. A matrix is pictures of one position each.
#pragma once

#include "plan_math.cuh"

// Axes of views here. Channels are side by side.
#define TILES_GROUP 0
#define TILES_SAMPLE 1
#define TILES_ROW 2
#define TILES_COLUMN 3

struct PlanTiles {
  PlanView x, y;
  PlanEpilogue epilogue;
  PlanPlace weights;
  unsigned long long pieces;  // the table, in bytes from the start of the constants
  long long weights_stride;   // bytes of one group
  unsigned m, n;              // of one group
  unsigned k;                 // elements
  unsigned n_pieces;          // of 8 elements
  unsigned k_blocks;          // of 16
  unsigned height, width, in_height, in_width;
  unsigned stride[2], pad[2];
  unsigned unused;
};

// Of the table.
struct PlanPiece {
  int dy, dx;
  int offset;  // elements of x, from the position's first
  unsigned bytes;
};

namespace {

constexpr int NOWHERE = -(1 << 30);  // a row that no tap brings back into the picture

// A row that a thread brings: the position's corner in x, and its first element.
struct Row {
  int y, x;
  long long first;
};

__device__ __forceinline__ Row row_of(const PlanTiles& tiles, unsigned m, long long group) {
  if (m >= tiles.m) return Row{NOWHERE, NOWHERE, 0};
  unsigned column = m % tiles.width, rest = m / tiles.width;
  unsigned row = rest % tiles.height, sample = rest / tiles.height;
  int y = static_cast<int>(row * tiles.stride[0]) - static_cast<int>(tiles.pad[0]);
  int x = static_cast<int>(column * tiles.stride[1]) - static_cast<int>(tiles.pad[1]);
  const long long* strides = tiles.x.strides;
  long long first = group + sample * strides[TILES_SAMPLE] + y * strides[TILES_ROW] + x * strides[TILES_COLUMN];
  return Row{y, x, first};
}

__device__ __forceinline__ bool is_inside(const PlanTiles& tiles, const Row& row, const PlanPiece& piece) {
  return static_cast<unsigned>(row.y + piece.dy) < tiles.in_height &&
         static_cast<unsigned>(row.x + piece.dx) < tiles.in_width;
}

__device__ __forceinline__ PlanPiece piece_at(const PlanPiece* pieces, unsigned index, unsigned n) {
  if (index >= n) return PlanPiece{0, 0, 0, 0};
  uint4 words = *reinterpret_cast<const uint4*>(pieces + index);
  return PlanPiece{static_cast<int>(words.x), static_cast<int>(words.y), static_cast<int>(words.z), words.w};
}

// Where an element of y, or of what is added to it, lies.
__device__ __forceinline__ long long position_of(const PlanTiles& tiles, const long long* strides, unsigned m,
                                                 unsigned group) {
  unsigned column = m % tiles.width, rest = m / tiles.width;
  unsigned row = rest % tiles.height, sample = rest / tiles.height;
  return group * strides[TILES_GROUP] + sample * strides[TILES_SAMPLE] + row * strides[TILES_ROW] +
         column * strides[TILES_COLUMN];
}

}  // namespace
