# `cmake --install`: headers, libraries, the command, and a package that find_package(strata) finds: an archive a
# module or, with STRATA_SHARED, one shared library that exports what the public headers declare.
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY STRATA_MODULES)
list(TRANSFORM modules PREPEND strata_ OUTPUT_VARIABLE module_targets)

# What programs of this tree link: the archives, also with STRATA_SHARED, since tests reach into them.
add_library(strata INTERFACE)
add_library(strata::strata ALIAS strata)
target_link_libraries(strata INTERFACE ${module_targets})
set(umbrella "${PROJECT_SOURCE_DIR}/include/strata/strata.h")
target_sources(strata INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES "${umbrella}")

if(STRATA_SHARED)
  foreach(target IN LISTS module_targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:${target}>)
    endif()
  endforeach()
  get_property(headers GLOBAL PROPERTY STRATA_PUBLIC_HEADERS)
  add_library(strata_shared SHARED ${objects})
  set_target_properties(strata_shared PROPERTIES
    OUTPUT_NAME strata EXPORT_NAME strata LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  target_compile_features(strata_shared INTERFACE cxx_std_20)
  # PRIVATE: what the modules link; their archives add nothing to their objects.
  target_link_libraries(strata_shared PRIVATE ${module_targets} INTERFACE Threads::Threads)
  # A program must load libtorch itself, from its own run path: libstrata.so has none.
  target_link_options(strata_shared INTERFACE LINKER:--no-as-needed)
  if(STRATA_TORCH)
    target_link_libraries(strata_shared INTERFACE strata::torch)
  endif()
  target_sources(strata_shared INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
                 FILES ${headers} "${umbrella}")
  install(TARGETS strata_shared EXPORT strata-targets FILE_SET HEADERS)
else()
  install(TARGETS strata ${module_targets} EXPORT strata-targets FILE_SET HEADERS)
endif()

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/strata")
install(EXPORT strata-targets NAMESPACE strata:: DESTINATION "${package_dir}")
# libtorch keeps its binary interface within 2.15.x, say.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" STRATA_TORCH_SERIES "${StrataTorch_VERSION}")
set(torch_hint "")
if(NOT STRATA_PACKAGE)
  set(torch_hint "${StrataTorch_ROOT}")
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/strataConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/strataConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/strataConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/strataConfig.cmake" "${PROJECT_BINARY_DIR}/strataConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindStrataTorch.cmake"
        DESTINATION "${package_dir}")

if(STRATA_SHARED)
  # pkg-config's file finds its prefix from its own place.
  file(RELATIVE_PATH STRATA_PC_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/strata.pc.in" "${PROJECT_BINARY_DIR}/strata.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/strata.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/datasets/mnist" DESTINATION "${CMAKE_INSTALL_DATADIR}/strata/datasets")
