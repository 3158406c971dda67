#!/usr/bin/env bash
# coverage_run.sh FOLDER NAME: runs one test of a build that counts what runs (./dev coverage) and keeps its counts in
# FOLDER/profiles and what it prints in FOLDER/report. NAME is a program of FOLDER/bin, or a script such as app/commands.
folder=$PWD/$1
name=$2
log=$folder/report/${name//\//_}.log
# One file of counts per program; tests/faults makes writes of the program fail, and a damaged file must not spoil the others.
export LLVM_PROFILE_FILE=$folder/profiles/${name//\//_}-%m.profraw
case $name in
  fuzz_replay) run=("$folder/bin/fuzz_replay" -seconds=0 -seeds=fuzz/seeds) ;;
  test_faults)
    run=("$folder/bin/$name" --gtest_brief=1)
    export LLVM_PROFILE_FILE=$folder/profiles/$name-%p.profraw
    ;;
  test_*) run=("$folder/bin/$name" --gtest_brief=1) ;;
  *) run=(bash "tests/$name.sh" "$folder/heed" "$PWD") ;;
esac
if timeout 3600 "${run[@]}" >"$log" 2>&1; then
  echo "dev: $name passed"
else
  code=$?
  [ $code -eq 77 ] && echo "dev: $name skipped" || { echo "dev: $name FAILED, $log:"; tail -5 "$log"; }
fi
