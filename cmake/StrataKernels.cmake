# strata_kernels(<list> stem ...)
# Kernels that are one source, <stem>.inc, compiled once an instruction set through <stem>_baseline.cc, <stem>_avx2.cc
# and <stem>_avx512.cc, and chosen at run time (src/core/cpu_isa.h). Appends those files to <list> and gives them
# their options: every variant must produce the same bits, so no contraction into fused multiply-adds;
# without errno and traps square roots and comparisons vectorise. -O3 in every preset: -O2 does not vectorise enough.
function(strata_kernels list)
  set(options -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math)
  set(files ${${list}})
  foreach(stem IN LISTS ARGN)
    list(APPEND files ${stem}_baseline.cc)
    set_source_files_properties(${stem}_baseline.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${options}")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      list(APPEND files ${stem}_avx2.cc ${stem}_avx512.cc)
      set_source_files_properties(${stem}_avx2.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${options};-mavx2")
      set_source_files_properties(${stem}_avx512.cc PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${options};-mavx512f;-mprefer-vector-width=512")
    endif()
  endforeach()
  set(${list} ${files} PARENT_SCOPE)
endfunction()
