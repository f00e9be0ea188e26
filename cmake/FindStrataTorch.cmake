# Finds libtorch as PyPI's `torch` wheel lays it out. libtorch's own TorchConfig.cmake is not used: it insists
# on a CUDA toolkit even where nothing but the CPU part is linked.
#
# Places, in this order:
#   1. -DTORCH_ROOT=DIR (or the environment variable): the folder that holds include/ and lib/, or its parent;
#   2. a `torch` that python3 can import;
#   3. the user's cache folder, ${XDG_CACHE_HOME:-~/.cache}/strata/engine, which scripts/bootstrap.sh fills: torch-*-cuda with
#      STRATA_CUDA=ON, else the others.
#
# Result: StrataTorch_FOUND, StrataTorch_VERSION, StrataTorch_ROOT, and the imported target strata::torch, which is what to
# link; its headers are system headers.
# Set STRATA_TORCH_SERIES=2.15, say, before the call to take no other: libraries that are built with one series do not link
# with another. Set STRATA_CUDA=ON before the call to link libtorch's CUDA part too (torch_cuda, c10_cuda): nothing is compiled
# for it, so neither nvcc nor CUDA's headers are needed.
#
# `cmake [-DTORCH_ROOT=DIR] [-DSTRATA_CUDA=ON] -P FindStrataTorch.cmake` prints the engine's folder, and fails if it finds none.

set(STRATA_TORCH_MIN_VERSION 2.11)

# Sets `out_root` to the engine in `candidate`, or `out_why` to what is wrong with it.
function(_strata_probe_engine candidate out_root out_version out_why)
  set(root "${candidate}")
  if(EXISTS "${root}/torch/lib")
    set(root "${root}/torch")
  endif()
  set(${out_root} "" PARENT_SCOPE)
  set(needed lib/libtorch_cpu.so lib/libc10.so include/ATen/ATen.h include/torch/csrc/api/include/torch/torch.h)
  if(STRATA_CUDA)
    list(APPEND needed lib/libtorch_cuda.so lib/libc10_cuda.so)
  endif()
  foreach(file IN LISTS needed)
    if(NOT EXISTS "${root}/${file}")
      set(${out_why} "${root} has no ${file}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(version "0")
  foreach(header include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h)
    if(EXISTS "${root}/${header}")
      file(STRINGS "${root}/${header}" lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      if(lines)
        string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
        string(REPLACE ";" "." version "${numbers}")
        break()
      endif()
    endif()
  endforeach()
  if(version VERSION_LESS STRATA_TORCH_MIN_VERSION)
    set(${out_why} "${root} is torch ${version}; strata needs ${STRATA_TORCH_MIN_VERSION} to 2.15" PARENT_SCOPE)
    return()
  endif()
  if(STRATA_TORCH_SERIES AND NOT version MATCHES "^${STRATA_TORCH_SERIES}(\\.|$)")
    set(${out_why} "${root} is torch ${version}; this strata was built with ${STRATA_TORCH_SERIES}" PARENT_SCOPE)
    return()
  endif()
  file(REAL_PATH "${root}" root)
  set(${out_root} "${root}" PARENT_SCOPE)
  set(${out_version} "${version}" PARENT_SCOPE)
endfunction()

function(_strata_find_engine out_root out_version out_why)
  set(tried "")
  set(candidates "")
  if(TORCH_ROOT)
    set(candidates "${TORCH_ROOT}")  # the user's word: nothing else is tried
  elseif(NOT "$ENV{TORCH_ROOT}" STREQUAL "")
    set(candidates "$ENV{TORCH_ROOT}")
  else()
    find_program(STRATA_PYTHON3 python3)
    mark_as_advanced(STRATA_PYTHON3)
    if(STRATA_PYTHON3)
      # find_spec does not run torch's own code, so this takes milliseconds.
      execute_process(
        COMMAND "${STRATA_PYTHON3}" -c
                "import importlib.util as u; s = u.find_spec('torch'); print(list(s.submodule_search_locations)[0] if s else '')"
        OUTPUT_VARIABLE python_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(python_torch)
        list(APPEND candidates "${python_torch}")
      endif()
    endif()
    if("$ENV{XDG_CACHE_HOME}" STREQUAL "")
      set(cache "$ENV{HOME}/.cache")
    else()
      set(cache "$ENV{XDG_CACHE_HOME}")
    endif()
    file(GLOB cached "${cache}/strata/engine/torch-*")
    # The full engine is for builds that want CUDA: 4 GB of libraries to load, and other tests.
    if(STRATA_CUDA)
      list(FILTER cached INCLUDE REGEX "-cuda$")
    else()
      list(FILTER cached EXCLUDE REGEX "-cuda$")
    endif()
    list(SORT cached COMPARE NATURAL ORDER DESCENDING)
    list(APPEND candidates ${cached})
  endif()
  foreach(candidate IN LISTS candidates)
    _strata_probe_engine("${candidate}" root version why)
    if(root)
      set(${out_root} "${root}" PARENT_SCOPE)
      set(${out_version} "${version}" PARENT_SCOPE)
      return()
    endif()
    string(APPEND tried "\n  ${why}")
  endforeach()
  set(${out_root} "" PARENT_SCOPE)
  set(${out_why} "${tried}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE AND CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  _strata_find_engine(root version why)
  if(NOT root)
    message(FATAL_ERROR "no usable libtorch found${why}")
  endif()
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${root}")
  return()
endif()

_strata_find_engine(StrataTorch_ROOT StrataTorch_VERSION _strata_torch_why)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  StrataTorch
  REQUIRED_VARS StrataTorch_ROOT
  VERSION_VAR StrataTorch_VERSION
  REASON_FAILURE_MESSAGE
    "run `strata engine` (in strata's sources: scripts/bootstrap.sh), which installs it, or pass -DTORCH_ROOT=DIR (the folder with torch's include/ and lib/). Tried:${_strata_torch_why}")

if(StrataTorch_FOUND AND NOT TARGET strata::torch)
  set(_includes "${StrataTorch_ROOT}/include" "${StrataTorch_ROOT}/include/torch/csrc/api/include")
  set(_libraries strata::c10)
  set(_options "LINKER:--allow-shlib-undefined")  # libtorch_cpu's own CUDA libraries are found by its own rpath
  foreach(_library c10 torch_cpu)
    add_library(strata::${_library} SHARED IMPORTED)
    set_target_properties(strata::${_library} PROPERTIES
      IMPORTED_LOCATION "${StrataTorch_ROOT}/lib/lib${_library}.so"
      IMPORTED_SONAME lib${_library}.so)
  endforeach()

  if(STRATA_CUDA)
    foreach(_library c10_cuda torch_cuda)
      add_library(strata::${_library} SHARED IMPORTED)
      set_target_properties(strata::${_library} PROPERTIES
        IMPORTED_LOCATION "${StrataTorch_ROOT}/lib/lib${_library}.so"
        IMPORTED_SONAME lib${_library}.so)
    endforeach()
    # torch_cuda registers the CUDA kernels when it is loaded; nothing refers to it by symbol, so it must be kept.
    list(APPEND _options "LINKER:--no-as-needed")
    list(PREPEND _libraries strata::torch_cuda strata::c10_cuda)
  endif()

  add_library(strata::torch INTERFACE IMPORTED)
  set_target_properties(strata::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_includes}"  # an imported target's headers are system headers
    INTERFACE_LINK_LIBRARIES "strata::torch_cpu;${_libraries}"
    INTERFACE_LINK_OPTIONS "${_options}"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
