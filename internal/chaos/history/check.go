package history

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Patience is how long one model may be searched for one name.
const Patience = time.Minute

// Report is the verdict on a history.
type Report struct {
	// Counts are calls by verb and result, and faults by kind under "fault".
	Counts map[string]map[string]int
	Grants int
	// Accepted and Refused are writes at the store.
	Accepted, Refused int
	// Overlaps are pairs of grants that were valid at once.
	Overlaps []string
	// Disorder is grants whose token is not above that of a grant made before.
	Disorder []string
	// Stale are writes that the store should not have taken, or refused to a holder.
	Stale []string
	// Breaches are what clients saw broken themselves.
	Breaches []string
	// Exclusion, Tokens and Fence are the checker's verdicts, by name of the lock where not legal.
	Exclusion, Tokens, Fence Verdict
	// Pause is the longest time without a grant of some name, and PauseEnd the grant of
	// Paused that ended it, ns.
	Pause    time.Duration
	Paused   string
	PauseEnd int64
}

// Verdict is that of a model. It is legal when both lists are empty.
type Verdict struct {
	Illegal   []string // names of locks
	Undecided []string // the search took too long
}

func (v Verdict) String() string {
	switch {
	case len(v.Illegal) > 0:
		return fmt.Sprintf("ILLEGAL: %v", v.Illegal)
	case len(v.Undecided) > 0:
		return fmt.Sprintf("undecided: %v", v.Undecided)
	}
	return "legal"
}

// Violated reports whether some promise was broken.
func (r *Report) Violated() bool {
	return len(r.Overlaps)+len(r.Disorder)+len(r.Stale)+len(r.Breaches)+
		len(r.Exclusion.Illegal)+len(r.Tokens.Illegal)+len(r.Fence.Illegal) > 0
}

// Undecided reports whether some search was not finished.
func (r *Report) Undecided() bool {
	return len(r.Exclusion.Undecided)+len(r.Tokens.Undecided)+len(r.Fence.Undecided) > 0
}

// Check judges a history, whose events are in the order of time.
func Check(events []Event) *Report {
	d := digested(events)
	r := &Report{Counts: d.counts, Grants: len(d.grants), Stale: d.refused, Breaches: d.breaches}
	writes := map[string][]Write{}
	for _, w := range d.writes {
		writes[w.Name] = append(writes[w.Name], w)
		if w.Accepted {
			r.Accepted++
		} else {
			r.Refused++
		}
	}
	parts := byName(d.grants)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		r.count(parts[name], writes[name])
		r.Exclusion.judge(name)(legal(&lockModel, lockSteps(parts[name]), Patience))
		r.Tokens.judge(name)(legal(&fenceModel, fenceSteps(parts[name], nil), Patience))
		r.Fence.judge(name)(legal(&fenceModel, fenceSteps(parts[name], writes[name]), Patience))
	}
	return r
}

func (v *Verdict) judge(name string) func(legal, ok bool) {
	return func(legal, ok bool) {
		switch {
		case !ok:
			v.Undecided = append(v.Undecided, name)
		case !legal:
			v.Illegal = append(v.Illegal, name)
		}
	}
}

// count finds what needs no search. The grants are in the order in which they returned.
func (r *Report) count(grants []*Grant, writes []Write) {
	for i, g := range grants {
		if i > 0 {
			if pause := time.Duration(g.Returned - grants[i-1].Returned); pause > r.Pause {
				r.Pause, r.Paused, r.PauseEnd = pause, g.Name, g.Returned
			}
		}
		for _, before := range grants[:i] {
			if before.End() > g.Returned && g.End() > g.Returned {
				r.Overlaps = append(r.Overlaps, describe(fmt.Sprintf("until %d: ", min(g.End(), before.End())), before, g))
			}
			if before.Returned < g.Invoked && before.Token > g.Token || before.Token == g.Token {
				r.Disorder = append(r.Disorder, describe("", before, g))
			}
		}
	}
	highest := int64(0)
	for _, w := range writes {
		if w.Accepted && w.Token < highest {
			r.Stale = append(r.Stale, fmt.Sprintf("%s: token %d was accepted after %d", w.Name, w.Token, highest))
		}
		if w.Accepted {
			highest = max(highest, w.Token)
		}
	}
}

func describe(what string, grants ...*Grant) string {
	for i, g := range grants {
		if i > 0 {
			what += ", and "
		}
		what += fmt.Sprintf("%s of client %d: token %d, called %d, granted %d, over %d",
			g.Name, g.Client, g.Token, g.Invoked, g.Returned, g.End())
	}
	return what
}

// shown is how many examples of each violation are printed.
const shown = 5

// Print writes the report for people.
func (r *Report) Print(w io.Writer) {
	for _, verb := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(w, "%-8s", verb)
		for _, result := range slices.Sorted(maps.Keys(r.Counts[verb])) {
			fmt.Fprintf(w, " %s %d,", result, r.Counts[verb][result])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "grants   %d; the longest time without one: %v, of %s until %d\n",
		r.Grants, r.Pause.Round(time.Millisecond), r.Paused, r.PauseEnd)
	fmt.Fprintf(w, "store    %d writes accepted, %d stale ones refused\n", r.Accepted, r.Refused)
	fmt.Fprintf(w, "checker  exclusion %v; tokens %v; fence %v\n", r.Exclusion, r.Tokens, r.Fence)
	for _, list := range []struct {
		what string
		all  []string
	}{
		{"two holders at once", r.Overlaps},
		{"tokens out of order", r.Disorder},
		{"wrong at the store", r.Stale},
		{"broken promises", r.Breaches},
	} {
		fmt.Fprintf(w, "counted  %s: %d\n", list.what, len(list.all))
		for _, line := range list.all[:min(shown, len(list.all))] {
			fmt.Fprintf(w, "         %s\n", line)
		}
	}
}
