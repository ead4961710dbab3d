// A stand-in NVRTC: it finds the entries of a source and writes their names down.
//
//   source with `extern "C" __global__ void name(`
//   sm_121a      ->  64 bytes of an ELF header, "spark stand-in cubin\nsm_121a\n<options>\nname 0\n"
//   compute_120  ->  ".version 8.4\n.target sm_120\n.visible .entry name()\n"
//
// The number behind an entry is its static shared memory: `__shared__` arrays of numbers.
// `#error` lines and braces that do not match are compile errors with a log, as are options
// without an architecture. What the code means is checked elsewhere: the host compiler
// builds every kernel, and `cargo xtask kernels` compiles them with NVIDIA's compiler.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "record.h"

using namespace stand_in;

namespace {

enum : int { SUCCESS = 0, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL_ERROR = 11 };

struct Program { std::string source, file, cubin, ptx, log; };
std::map<void*, std::unique_ptr<Program>> programs;

struct Entry { std::string name; std::size_t shared_bytes; };

// The bytes of `__shared__ float name[64];` and the like between two places of a source.
std::size_t shared_between(const std::string& source, std::size_t at, std::size_t end) {
  static const std::string MARK = "__shared__ ";
  std::size_t sum = 0;
  for (at = source.find(MARK, at); at < end; at = source.find(MARK, at + 1)) {
    std::size_t type = at + MARK.size();
    std::size_t open = source.find_first_of("[;", type);
    bool is_dynamic = at >= 7 && source.compare(at - 7, 7, "extern ") == 0;
    if (is_dynamic || open == std::string::npos || source[open] == ';') continue;
    std::size_t element = source.compare(type, 6, "double") == 0 ? 8 : 4;
    sum += element * std::strtoul(source.c_str() + open + 1, nullptr, 10);
  }
  return sum;
}

std::vector<Entry> entries_of(const std::string& source) {
  static const std::string MARK = "extern \"C\" __global__ void ";
  std::vector<Entry> entries;
  for (std::size_t at = source.find(MARK); at != std::string::npos;) {
    std::size_t start = at + MARK.size(), next = source.find(MARK, start);
    // `__launch_bounds__(...)` may stand before the name.
    if (source.compare(start, 17, "__launch_bounds__") == 0) start = source.find(')', start) + 1;
    start = source.find_first_not_of(" \n", start);
    std::string name = source.substr(start, source.find('(', start) - start);
    entries.push_back({name, shared_between(source, start, std::min(next, source.size()))});
    at = next;
  }
  return entries;
}

std::string wrong_with(const Program& program) {
  const std::string& source = program.source;
  std::size_t error = source.find("#error");
  if (error != std::string::npos) {
    auto line = 1 + std::count(source.begin(), source.begin() + static_cast<long>(error), '\n');
    return program.file + '(' + std::to_string(line) + "): error: " + source.substr(error, source.find('\n', error) - error);
  }
  if (std::count(source.begin(), source.end(), '{') != std::count(source.begin(), source.end(), '}'))
    return program.file + ": error: expected a \"}\"";
  return {};
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int
// A fault of any number is an internal error here: NVRTC's numbers end at 12, and cudarc's
// enumeration has no place for others.
#define ENTER(name)                                  \
  std::lock_guard<std::mutex> guard(lock);           \
  if (enter(#name) != 0) return INTERNAL_ERROR
#define PROGRAM(handle)                              \
  auto found = programs.find(handle);                \
  if (found == programs.end()) return INVALID_PROGRAM; \
  Program& program = *found->second

API nvrtcVersion(int* major, int* minor) { ENTER(nvrtcVersion); *major = 13; *minor = 0; return SUCCESS; }

API nvrtcCreateProgram(void** handle, const char* source, const char* name, int, const char* const*, const char* const*) {
  ENTER(nvrtcCreateProgram);
  auto program = std::make_unique<Program>();
  program->source = source;
  program->file = name;
  *handle = program.get();
  programs[*handle] = std::move(program);
  return SUCCESS;
}
API nvrtcDestroyProgram(void** handle) {
  std::lock_guard<std::mutex> guard(lock);
  int told = enter("nvrtcDestroyProgram") != 0 ? INTERNAL_ERROR : SUCCESS;
  if (programs.erase(*handle) == 0) { violation("a program destroyed twice"); return INVALID_PROGRAM; }
  *handle = nullptr;
  return told;
}
API nvrtcCompileProgram(void* handle, int n_options, const char* const* options) {
  static const std::string ARCH = "--gpu-architecture=";
  std::string arch, others;
  for (int idx = 0; idx < n_options; ++idx) {
    std::string option = options[idx];
    if (option.compare(0, ARCH.size(), ARCH) == 0) arch = option.substr(ARCH.size());
    else others += ' ' + option;
  }
  std::lock_guard<std::mutex> guard(lock);
  if (enter("nvrtcCompileProgram", arch + others) != 0) return INTERNAL_ERROR;
  PROGRAM(handle);
  program.log = wrong_with(program);
  if (!program.log.empty()) return COMPILATION;
  if (arch.compare(0, 3, "sm_") == 0) {
    program.cubin = std::string("\x7f" "ELF") + std::string(60, '\0') + "spark stand-in cubin\n" + arch + '\n' + others + '\n';
    for (const Entry& entry : entries_of(program.source)) program.cubin += entry.name + ' ' + std::to_string(entry.shared_bytes) + '\n';
  } else if (arch.compare(0, 8, "compute_") == 0) {
    program.ptx = ".version 8.4\n.target sm_" + arch.substr(8) + '\n';
    for (const Entry& entry : entries_of(program.source)) program.ptx += ".visible .entry " + entry.name + "()\n";
  } else {
    return INVALID_OPTION;
  }
  return SUCCESS;
}
API nvrtcGetNumSupportedArchs(int* n) { ENTER(nvrtcGetNumSupportedArchs); *n = 5; return SUCCESS; }
API nvrtcGetSupportedArchs(int* archs) {
  ENTER(nvrtcGetSupportedArchs);
  static const int ALL[] = {80, 89, 90, 120, 121};
  std::memcpy(archs, ALL, sizeof ALL);
  return SUCCESS;
}
// Sizes count the closing NUL.
API nvrtcGetCUBINSize(void* handle, std::size_t* n_bytes) {
  ENTER(nvrtcGetCUBINSize);
  PROGRAM(handle);
  *n_bytes = program.cubin.empty() ? 0 : program.cubin.size() + 1;
  return SUCCESS;
}
API nvrtcGetCUBIN(void* handle, char* bytes) {
  ENTER(nvrtcGetCUBIN);
  PROGRAM(handle);
  std::memcpy(bytes, program.cubin.c_str(), program.cubin.size() + 1);
  return SUCCESS;
}
API nvrtcGetPTXSize(void* handle, std::size_t* n_bytes) {
  ENTER(nvrtcGetPTXSize);
  PROGRAM(handle);
  *n_bytes = program.ptx.size() + 1;
  return SUCCESS;
}
API nvrtcGetPTX(void* handle, char* text) {
  ENTER(nvrtcGetPTX);
  PROGRAM(handle);
  std::memcpy(text, program.ptx.c_str(), program.ptx.size() + 1);
  return SUCCESS;
}
API nvrtcGetProgramLogSize(void* handle, std::size_t* n_bytes) {
  ENTER(nvrtcGetProgramLogSize);
  PROGRAM(handle);
  *n_bytes = program.log.size() + 1;
  return SUCCESS;
}
API nvrtcGetProgramLog(void* handle, char* text) {
  ENTER(nvrtcGetProgramLog);
  PROGRAM(handle);
  std::memcpy(text, program.log.c_str(), program.log.size() + 1);
  return SUCCESS;
}

extern "C" __attribute__((visibility("default"))) std::size_t stand_in_live_programs() {
  std::lock_guard<std::mutex> guard(lock);
  return programs.size();
}
