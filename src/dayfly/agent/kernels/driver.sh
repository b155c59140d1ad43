# The Bash kernel, given to bash -c. It reads cells from descriptor $DAYFLY_CONTROL: a line "run first length",
# then so many bytes that come before the cell (variables that have changed), and so many of the cell.
# It answers with NUL-ended records: "ready", then for each cell "run status interrupted syntax-error-message".
#
# A cell is evaluated by a sourced file ($DAYFLY_CELL, one line: eval "$__dayfly_code"), at the top level and not in a
# function: only so are `declare` and `local` what they are in a script, and `return` leaves the cell. SIGINT is a trap
# that from then on makes every function and the sourced file return (bash has no exceptions), so that the shell and its
# state survive the interrupt.

__dayfly_fd=$DAYFLY_CONTROL __dayfly_cell=$DAYFLY_CELL
unset DAYFLY_CONTROL DAYFLY_CELL

# Without an agent, or if the cell closed the descriptor, it ends by a signal: an exit would look like one of the cell's own.
__dayfly_next() {
  local LC_ALL=C first length # bytes, not characters
  IFS=' ' builtin read -r -u "$__dayfly_fd" __dayfly_run first length &&
    IFS= builtin read -r -N "$first" -u "$__dayfly_fd" __dayfly_first &&
    IFS= builtin read -r -N "$length" -u "$__dayfly_fd" __dayfly_code || builtin kill -KILL "$$"
}

__dayfly_interrupt() {
  __dayfly_interrupted=1
  builtin shopt -s extdebug
  builtin set -T
  builtin trap __dayfly_unwind DEBUG
}

# Inside of the cell, at any depth: return. In the loop below: go on.
__dayfly_unwind() {
  local IFS=' '
  [[ " ${BASH_SOURCE[*]} " != *" $__dayfly_cell "* ]] || builtin return 2
}

# What the parser says about the cell, if that is why it failed. Bash gives 2 for it, but so do other things.
__dayfly_complaint() {
  __dayfly_error=
  (( $1 == 2 )) || builtin return 0
  __dayfly_error=$(builtin unset BASH_ENV; "$BASH" --norc --noprofile -n <<<"$__dayfly_code" 2>&1) && __dayfly_error=
  builtin return 0
}

exec {__dayfly_out}>&1 {__dayfly_err}>&2
builtin trap __dayfly_interrupt INT
builtin trap 'builtin true' HUP # the agent's way of killing may send one; not ignored, since that would be inherited
builtin printf 'ready\0' >&"$__dayfly_fd"
while __dayfly_next; do
  # An interrupt may have come after the last cell had ended by itself: it is not this one's.
  builtin trap - DEBUG
  builtin shopt -u extdebug
  builtin set +T
  __dayfly_interrupted=0
  builtin eval "$__dayfly_first"
  builtin . "$__dayfly_cell"
  __dayfly_status=$?
  # What would break the next cell, or this loop, is as it was. Not in a function: that would keep its own DEBUG trap.
  # (And exec without `builtin`, which would undo its redirections.)
  builtin trap - DEBUG RETURN ERR
  builtin trap __dayfly_interrupt INT
  builtin shopt -u extdebug
  builtin set +eunvxT
  exec </dev/null 1>&"$__dayfly_out" 2>&"$__dayfly_err"
  __dayfly_complaint "$__dayfly_status"
  builtin printf '%s\0' "$__dayfly_run $__dayfly_status $__dayfly_interrupted $__dayfly_error" >&"$__dayfly_fd"
done
