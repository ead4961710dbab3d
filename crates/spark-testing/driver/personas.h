// What the stand-in poses as: four GPUs, by what a driver says of them; personas.cpp has the table.
#pragma once

#include <cstddef>
#include <string>

namespace stand_in {

enum Persona { SPARK = 0, CARD = 1, JETSON = 2, AMPERE = 3 };
constexpr int N_PERSONAS = 4;

// The attributes of cuda.h that the stand-in itself goes by.
enum Attribute {
  REGISTERS_PER_BLOCK = 12,
  INTEGRATED = 18,
  THREADS_PER_MULTIPROCESSOR = 39,
  COMPUTE_MAJOR = 75,
  COMPUTE_MINOR = 76,
  SHARED_PER_MULTIPROCESSOR = 81,
  REGISTERS_PER_MULTIPROCESSOR = 82,
  PAGEABLE_ACCESS = 88,
  CONCURRENT_MANAGED_ACCESS = 89,
  SHARED_PER_BLOCK_OPTIN = 97,
  BLOCKS_PER_MULTIPROCESSOR = 106,
  RESERVED_SHARED_PER_BLOCK = 111,
  MEMORY_POOLS = 115,
};

// The answer to an attribute of cuda.h by its number; 0 to one that is not in the table.
int attribute_of(Persona persona, int number);
// As the driver says it, of `NVIDIA GB10`.
const char* name_of(Persona persona);
std::size_t total_bytes_of(Persona persona);
// 121 for compute capability 12.1.
int compute_of(Persona persona);
// Whether it is a part of an SoC of NVIDIA's Tegra family, which runs no machine code but its own.
bool is_tegra(Persona persona);
// The persona of this word, as in SPARK_STAND_IN_PERSONA; SPARK if there is none.
Persona persona_of_word(const std::string& word);

}  // namespace stand_in
