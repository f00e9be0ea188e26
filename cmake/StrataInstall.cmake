# `cmake --install`: headers, libraries, the command, and a package that find_package(strata) finds.
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY STRATA_MODULES)
add_library(strata INTERFACE)
add_library(strata::strata ALIAS strata)
foreach(module IN LISTS modules)
  target_link_libraries(strata INTERFACE strata_${module})
endforeach()
target_sources(strata INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
               FILES "${PROJECT_SOURCE_DIR}/include/strata/strata.h")
install(TARGETS strata EXPORT strata-targets FILE_SET HEADERS)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/strata")
install(EXPORT strata-targets NAMESPACE strata:: DESTINATION "${package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/strataConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/strataConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/strataConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/strataConfig.cmake" "${PROJECT_BINARY_DIR}/strataConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindStrataTorch.cmake"
        DESTINATION "${package_dir}")

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/datasets/mnist" DESTINATION "${CMAKE_INSTALL_DATADIR}/strata/datasets")
