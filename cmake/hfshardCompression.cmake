# hfshard::xxhash and hfshard::zstd: libraries that come without a package of CMake's. Installed beside the package, which
# needs them too.
foreach(name xxhash zstd)
  if(NOT TARGET hfshard::${name})
    find_path(hfshard_${name}_INCLUDE_DIR ${name}.h)
    find_library(hfshard_${name}_LIBRARY ${name})
    mark_as_advanced(hfshard_${name}_INCLUDE_DIR hfshard_${name}_LIBRARY)
    if(hfshard_${name}_INCLUDE_DIR AND hfshard_${name}_LIBRARY)
      add_library(hfshard::${name} UNKNOWN IMPORTED)
      set_target_properties(hfshard::${name} PROPERTIES
        IMPORTED_LOCATION "${hfshard_${name}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${hfshard_${name}_INCLUDE_DIR}")
    else()
      set(hfshard_NOT_FOUND_MESSAGE "hfshard needs ${name}, of which the header or the library is missing")
    endif()
  endif()
endforeach()
