# Warnings, sanitizers and the per-layer library helper.

add_library(hfshard_options INTERFACE)
target_compile_options(hfshard_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -ffp-contract=off $<$<BOOL:${HFSHARD_WERROR}>:-Werror>
  # Tests compiled together: a local name of one file may hide a name of another.
  $<IF:$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,$<BOOL:$<TARGET_PROPERTY:HFSHARD_IS_TEST>>>,-Wshadow=local,-Wshadow>
  # Objects then don't depend on the folder of the checkout, and ccache can take those of another one.
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # g++ has warnings that clang doesn't know. Its -Wall doesn't want braces around arrays in aggregates.
  target_compile_options(hfshard_options INTERFACE -Wno-unknown-warning-option -Wno-missing-braces)
endif()
if(HFSHARD_LIBFUZZER)
  target_compile_options(hfshard_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(HFSHARD_SANITIZE)
  # g++ 12 takes sanitized std::variant and std::string for uninitialised; the other presets keep these warnings.
  string(REPLACE "," "$<COMMA>" all_checks "${HFSHARD_SANITIZE}")
  string(REGEX REPLACE ",undefined$" "" few_checks "${HFSHARD_SANITIZE}")
  target_compile_options(hfshard_options INTERFACE
    -fsanitize=$<IF:$<BOOL:$<TARGET_PROPERTY:HFSHARD_IS_TEST>>,${few_checks},${all_checks}> -fno-omit-frame-pointer
    -Wno-maybe-uninitialized -Wno-restrict)
  target_link_options(hfshard_options INTERFACE -fsanitize=${HFSHARD_SANITIZE})
  # Every check of undefined behaviour has a record with addresses: two million relocations in a program that may lie anywhere,
  # half of the time that `hfshard --version` takes. The first one that fails ends the program: if each may be gone on from, g++
  # takes half as long again, for twice the code.
  if(HFSHARD_SANITIZE MATCHES "undefined")
    # What a null pointer leads to is found by the address sanitizer; the check before each access takes g++ a fifth of its time.
    target_compile_options(hfshard_options INTERFACE -fno-sanitize-recover=undefined -fno-sanitize=null)
    if(NOT HFSHARD_SANITIZE_ALL)
      # Checks at each access are half of the code and a quarter of g++'s time. The address sanitizer finds accesses outside of
      # objects.
      target_compile_options(hfshard_options INTERFACE -fno-sanitize=alignment,object-size,pointer-overflow,vptr)
    endif()
    target_link_options(hfshard_options INTERFACE -no-pie)
  endif()
endif()

# hfshard_unity(TARGET): compiles the target's sources together, at most 24 at a time. Most of g++'s time goes to headers that each
# file includes, those of gtest and CLI11 above all. The 72 files of format take 83 seconds of processor time in three parts, 75 in
# one. But a change in one of them then takes 30 seconds instead of 75. It is what users build, so it is what is tested.
# Names in anonymous namespaces must be unique in the target. The dev preset compiles files alone, which shows a missing include.
function(hfshard_unity name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
  # To g++ the sources are headers of that one file.
  target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
endfunction()

# hfshard_layer(NAME DIRECTORY LINKS...): one static library from all .cpp files of a folder of src.
# The libraries it links to are the layers above it; an include of a lower layer fails at link time and in
# scripts/check_layers.py.
function(hfshard_layer name directory)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${directory}/*.cpp)
  if(NOT sources)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.cpp)
  endif()
  string(REPLACE "/" "_" suffix ${name})
  add_library(hfshard_${suffix} STATIC ${sources})
  add_library(hfshard::${suffix} ALIAS hfshard_${suffix})
  target_include_directories(hfshard_${suffix} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(hfshard_${suffix} PUBLIC hfshard_options ${ARGN})
  if(HFSHARD_UNITY STREQUAL "all")
    hfshard_unity(hfshard_${suffix})
  endif()
endfunction()

# hfshard_test_code(TARGET): what is compiled once and run for a second. Checks of undefined behaviour in the tests' own code
# take g++ twice as long as all the rest of them; the code under test keeps them.
function(hfshard_test_code name)
  set_target_properties(${name} PROPERTIES HFSHARD_IS_TEST ON)
  if(HFSHARD_UNITY)
    hfshard_unity(${name})
  endif()
  if(HFSHARD_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# hfshard_add_test(NAME LABEL SOURCES... [LINK libs]): one gtest program, one ctest test.
function(hfshard_add_test name label)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  hfshard_test_code(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600)
  if(label STREQUAL "fast")
    add_dependencies(fast_tests ${name})
    add_dependencies(gate_tests ${name})
  endif()
endfunction()
