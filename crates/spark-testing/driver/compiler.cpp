// A stand-in NVRTC: it finds the entries of a source and writes their names down.
//
//   source with `extern "C" __global__ void name(`  ->  "spark stand-in cubin\nsm_121a\nname\n"
//
// `#error` lines and braces that do not match are compile errors with a log, as are options
// without an architecture. What the code means is checked elsewhere: the host compiler
// builds every kernel, and `cargo xtask kernels` compiles them with NVIDIA's compiler.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "record.h"

using namespace stand_in;

namespace {

enum : int { SUCCESS = 0, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL_ERROR = 11 };

struct Program { std::string source, file, cubin, log; };
std::map<void*, std::unique_ptr<Program>> programs;

std::string entries_of(const std::string& source) {
  static const std::string MARK = "extern \"C\" __global__ void ";
  std::string names;
  for (std::size_t at = source.find(MARK); at != std::string::npos; at = source.find(MARK, at + 1)) {
    std::size_t start = at + MARK.size();
    // `__launch_bounds__(...)` may stand before the name.
    if (source.compare(start, 17, "__launch_bounds__") == 0) start = source.find(')', start) + 1;
    start = source.find_first_not_of(" \n", start);
    names += source.substr(start, source.find('(', start) - start) + '\n';
  }
  return names;
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
  ENTER(nvrtcCompileProgram);
  PROGRAM(handle);
  static const std::string ARCH = "--gpu-architecture=sm_";
  std::string arch;
  for (int idx = 0; idx < n_options; ++idx)
    if (std::strncmp(options[idx], ARCH.c_str(), ARCH.size()) == 0) arch = options[idx] + ARCH.size();
  if (arch.empty()) return INVALID_OPTION;
  program.log = wrong_with(program);
  if (!program.log.empty()) return COMPILATION;
  program.cubin = "spark stand-in cubin\nsm_" + arch + '\n' + entries_of(program.source);
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
