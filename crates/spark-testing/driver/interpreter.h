// The interpreter of PTX, which the test program lends the driver; src/driver/interpreter.rs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stand_in {

struct Region { std::uint64_t base, len, is_read_only = 0; };

struct Request {
  std::uint64_t module;
  const char* entry;
  std::size_t entry_len;
  unsigned grid[3], block[3], dynamic_shared_bytes, persona;
  std::uint64_t seed;
  const void* parameters;
  std::size_t parameter_bytes;
  const std::uint64_t* globals;
  std::size_t n_globals;
  const Region* regions;
  std::size_t n_regions;
};

constexpr std::uint64_t NOT_ON_TARGET = ~std::uint64_t{0};

struct Interpreter {
  // A number for the code and a line for each entry and variable; 0 and the reason if it is refused;
  // NOT_ON_TARGET and the reason if a real driver refuses it too, as the target lacks an instruction.
  std::uint64_t (*load)(const char* text, std::size_t len, char* told, std::size_t room);
  void (*unload)(std::uint64_t module);
  // The first bytes of a variable, of those at `addresses`; how many there are.
  std::size_t (*initial_bytes)(std::uint64_t module, std::size_t variable, const std::uint64_t* addresses,
                               std::size_t n, void* to, std::size_t room);
  // 0, or the driver's code for what went wrong, and what it was.
  int (*launch)(const Request* request, char* told, std::size_t room);
  // What becomes of device memory, so that it is known what nobody has written.
  void (*allocated)(std::uint64_t base, std::size_t n_bytes);
  void (*freed)(std::uint64_t base);
  void (*written)(std::uint64_t address, std::size_t n_bytes);
};

// Null in a process that lends none: kernels are then those that the host compiler built.
extern const Interpreter* interpreter;

// Of a kernel in PTX: where its parameters lie.
struct Parameter { std::size_t offset, n_bytes; };

// A module-wide variable in PTX.
struct Variable { std::string name; std::size_t n_bytes; std::uint64_t address; bool is_const; };

// The order of blocks and warps of the next launch.
std::uint64_t next_seed();

}  // namespace stand_in
