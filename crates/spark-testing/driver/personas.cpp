// The personas: what is recorded of four GPUs.
//
//   SPARK   NVIDIA GB10         unified: plain memory and the CPU's page tables are the GPU's too
//   CARD    H200                discrete; 4 GiB instead of 141 GB, so that a test can ask for more
//   JETSON  Jetson AGX Orin     one memory, but plain memory is the CPU's, and managed memory belongs
//                               to one side at a time
//   AMPERE  A100 PCIe, 40 GB    discrete and old: no types of 8 bits, no clusters, no launch before
//                               the kernel in front has ended
//
// Where the numbers are from:
//
//   cc    CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability"; for 8.0 and
//         9.0 also NVIDIA/cccl, cuda/experimental/__device/arch_traits.cuh
//   GB10  owners: deviceQuery (kubesimplify, "DGX Spark", day 3), huggingface/kernels issue #283, a probe
//         of an MSI EdgeXpert (parallelArchitect/nvidia-uma-fault-probe), from which 89 is inferred;
//         116, 124: DGX Spark porting guide. 40: deviceQuery says 1, a guide 2. Not published: 86, 91, 101
//   H200  NVIDIA's data sheet and the H100 whitepaper: 132 multiprocessors, 50 MB of L2. Worked out: the
//         clock from 67 TFLOP/s, that of the memory from 4.8 TB/s over 6144 bits, doubled. Its host's
//         kernel shares no plain memory with it (HMM)
//   Orin  deviceQuery of owners: tmcdonell/cuda issue #77, OE4T/meta-tegra PR #2088 (256 bits); 89:
//         NVIDIA/MatX issue #1007; 36: 204.8 GB/s over 256 bits, doubled; 88, 100: "CUDA for Tegra"
//         names device, pinned and managed memory alone. Not published: 115, which is 0 so that a GPU
//         without memory pools is tested
//   A100  deviceQuery of an owner: PC2 Paderborn, "NVIDIA A100 40GB"
//
// What is not published, or was not found, is 0: a program must not rely on it.

#include "personas.h"


namespace stand_in {

namespace {

struct Row { int number; const char* what; int values[N_PERSONAS]; };

constexpr Row ROWS[] = {
    //                                                    GB10      H200      Orin      A100      from
    {1, "threads of a block", {                           1024,     1024,     1024,     1024}},    // cc
    {8, "shared memory of a block", {                     49152,    49152,    49152,    49152}},   // cc
    {9, "constant memory", {                              65536,    65536,    65536,    65536}},   // cc
    {10, "lanes of a warp", {                             32,       32,       32,       32}},      // cc
    {REGISTERS_PER_BLOCK, "registers of a block", {       65536,    65536,    65536,    65536}},   // cc
    {13, "clock in kHz", {                                2418000,  1980000,  1300000,  1410000}},
    {16, "multiprocessors", {                             48,       132,      16,       108}},
    {INTEGRATED, "integrated", {                          1,        0,        1,        0}},
    {19, "host memory can be mapped", {                   1,        1,        1,        1}},
    {36, "memory clock in kHz", {                         8533000,  3125000,  3200000,  1215000}},
    {37, "memory bus in bits", {                          256,      6144,     256,      5120}},
    {38, "L2 in bytes", {                                 25165824, 52428800, 4194304,  41943040}},
    {THREADS_PER_MULTIPROCESSOR, "threads", {             1536,     2048,     1536,     2048}},    // cc
    {40, "copy engines", {                                1,        0,        0,        0}},
    {41, "one address space", {                           1,        1,        1,        1}},
    {COMPUTE_MAJOR, "compute capability", {               12,       9,        8,        8}},
    {COMPUTE_MINOR, "its minor number", {                 1,        0,        7,        0}},
    {SHARED_PER_MULTIPROCESSOR, "shared memory", {        102400,   233472,   167936,   167936}},  // cc
    {REGISTERS_PER_MULTIPROCESSOR, "registers", {         65536,    65536,    65536,    65536}},   // cc
    {83, "managed memory", {                              1,        1,        1,        1}},
    {86, "native atomics with the host", {                0,        0,        0,        0}},
    {PAGEABLE_ACCESS, "plain memory of the host", {       1,        0,        0,        0}},
    {CONCURRENT_MANAGED_ACCESS, "managed, by both", {     1,        1,        0,        1}},
    {91, "host pointers of registered memory", {          0,        0,        0,        0}},
    {SHARED_PER_BLOCK_OPTIN, "shared memory, asked", {    101376,   232448,   166912,   166912}},  // cc
    {99, "host memory can be registered", {               1,        1,        1,        1}},
    {100, "the CPU's page tables", {                      1,        0,        0,        0}},
    {101, "managed memory is read in place", {            0,        0,        0,        0}},
    {BLOCKS_PER_MULTIPROCESSOR, "blocks", {               24,       32,       16,       32}},      // cc
    {RESERVED_SHARED_PER_BLOCK, "the driver's shared", {  1024,     1024,     1024,     1024}},    // cc
    {MEMORY_POOLS, "memory pools", {                      1,        1,        0,        1}},
    {116, "GPUDirect RDMA", {                             0,        1,        0,        1}},
    {124, "dma-buf", {                                    0,        0,        0,        0}},
};

struct Device { const char* word; const char* name; std::size_t total_bytes; };

constexpr Device DEVICES[N_PERSONAS] = {
    {"spark", "NVIDIA GB10", 130663907328ull},                 // 121.69 GiB
    {"card", "NVIDIA H200", std::size_t{4} << 30},
    {"jetson", "Orin", 62000000ull << 10},                     // the machine `jetson-orin` of spark-hal
    {"ampere", "NVIDIA A100-PCIE-40GB", 42405855232ull},
};

}  // namespace

int attribute_of(Persona persona, int number) {
  for (const Row& row : ROWS)
    if (row.number == number) return row.values[persona];
  return 0;
}

const char* name_of(Persona persona) { return DEVICES[persona].name; }
std::size_t total_bytes_of(Persona persona) { return DEVICES[persona].total_bytes; }
int compute_of(Persona persona) {
  return 10 * attribute_of(persona, COMPUTE_MAJOR) + attribute_of(persona, COMPUTE_MINOR);
}
bool is_tegra(Persona persona) { return persona == JETSON; }

Persona persona_of_word(const std::string& word) {
  for (int idx = 0; idx < N_PERSONAS; ++idx)
    if (word == DEVICES[idx].word) return static_cast<Persona>(idx);
  return SPARK;
}

}  // namespace stand_in
