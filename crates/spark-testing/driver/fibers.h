// The threads of a block as fibers of one operating-system thread.
//
//   for each block:  poison shared memory, make block.x*y*z fibers
//                    resume the unfinished ones in turn until all are done
//   barrier          own ticket + 1, then let others run until all reached that ticket
//
// Block and warp barriers have tickets of their own. A whole turn in which no ticket moved
// and no fiber ended is a deadlock: the launch fails and says where everybody stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace spark_on_host {

struct Dim3 { unsigned x, y, z; };
// One operating-system thread at a time runs kernels, under the driver's lock.
extern Dim3 threadIdx, blockIdx, blockDim, gridDim;

constexpr std::size_t LANE_BYTES = 16;

// Runs `body` once for every thread; empty if all ended, else what went wrong.
std::string run_grid(Dim3 grid, Dim3 block, unsigned shared_bytes, const std::function<void()>& body);

int lane();
void block_barrier();
void warp_barrier(unsigned mask);
// Everybody's value to everybody's slot; `result` gets that of lane `from`.
void exchange(unsigned mask, const void* value, std::size_t n_bytes, int from, void* result);
unsigned ballot(unsigned mask, bool predicate);
int block_count(bool predicate);
void* dynamic_shared();

// A place of `n_bytes` per lane of the warp, for what several lanes work out together.
unsigned char* warp_scratch();
constexpr std::size_t WARP_SCRATCH_BYTES = 32 * 64;

// Copies that happen when they are waited for.
void copy_later(void* to, const void* from, std::size_t n_bytes);
void wait_copies_of_thread();

struct Kernel {
  const char* name;
  // Calls the kernel with values copied from `arguments`.
  void (*invoke)(void* const* arguments);
  const std::size_t* argument_bytes;
  std::size_t n_arguments;
  const Kernel* next;
};
// All kernels of the library, linked by their registrations.
extern const Kernel* kernels;

// A `__constant__` of a kernel's file.
struct Symbol { const char* name; void* address; std::size_t n_bytes; const Symbol* next; };
extern const Symbol* symbols;

template <class... A, std::size_t... I>
void unpack(void (*kernel)(A...), void* const* arguments, std::index_sequence<I...>) {
  (void)arguments;
  kernel(*static_cast<std::remove_const_t<std::remove_reference_t<A>>*>(arguments[I])...);
}

template <auto KERNEL>
struct Registration;
template <class... A, void (*KERNEL)(A...)>
struct Registration<KERNEL> {
  static constexpr std::size_t sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
  Kernel kernel;
  static void invoke(void* const* arguments) { unpack(KERNEL, arguments, std::index_sequence_for<A...>{}); }
  explicit Registration(const char* name) : kernel{name, invoke, sizes, sizeof...(A), kernels} { kernels = &kernel; }
};

struct SymbolRegistration {
  Symbol symbol;
  SymbolRegistration(const char* name, void* address, std::size_t n_bytes) : symbol{name, address, n_bytes, symbols} {
    symbols = &symbol;
  }
};

}  // namespace spark_on_host
