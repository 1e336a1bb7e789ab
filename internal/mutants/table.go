package mutants

// Table is every mutant, by what it breaks.
func Table() []Mutant {
	var all []Mutant
	for _, group := range [][]Mutant{votes(), times(), fences(), cleanUp(), guard(), waiting(), holding()} {
		all = append(all, group...)
	}
	return all
}

func votes() []Mutant {
	return []Mutant{
		{
			Rule: "a quorum is a majority", File: "redlock.go",
			Old: "len(pools)/2 + 1", New: "(len(pools) + 1) / 2", Test: "TestQuorumIsAMajority",
		},
		{
			Rule: "a round is lost when too few are left", File: "quorum.go",
			Old: "t.no > t.n-t.quorum", New: "t.no >= t.n-t.quorum", Test: "TestTallyAllOrders",
		},
		{
			Rule: "a key that came back where the fence was gone is no vote", File: "scripts/touch.lua",
			Old: "known and 2 or 3", New: "2", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a node that lost the lock leaves the ledger", File: "grant.go",
			Old: "forgot, so it counts no longer.\n\tg.lease.drop(n.index, a.received)", New: "", Test: "TestCheckAsksTheNodes",
		},
		{
			Rule: "a node that shortened a life loses its vote", File: "grant.go",
			Old: "ttl < entry.Sub(a.received)", New: "false", Test: "TestNodeThatShortenedALockLosesItsVote",
		},
		{
			Rule: "a node whose clock is ahead of the others has failed", File: "ballot.go",
			Old: "below <= len(b.offsets)/2", New: "true", Test: "TestBallotBadClock",
		},
		{
			Rule: "an unlock is confirmed by the nodes that held", File: "release.go",
			Old: "a.code == codeReleased || a.code == codeMissing && !q.expected.has(n.index)", New: "true", Test: "TestErrorsOfEveryVerb",
		},
		{
			Rule: "refusals that need mending end an acquire", File: "judge.go",
			Old: "mend > spare", New: "false", Test: "TestCase26_HopelessFaultsFailAtOnce",
		},
	}
}

func times() []Mutant {
	return []Mutant{
		{
			Rule: "validity is less by the drift", File: "lease.go",
			Old: "float64(d)*factor", New: "0*factor", Test: "TestDrift",
		},
		{
			Rule: "validity counts from before the request was sent", File: "acquire.go",
			Old: "got.sent.Add(p.life)", New: "got.received.Add(p.life)", Test: "TestSpec_Validity",
		},
		{
			Rule: "validity ends with the quorum-th latest entry", File: "lease.go",
			Old: "later < l.quorum", New: "later <= l.quorum", Test: "TestLeaseValidityIsTheQuorumthLatest",
		},
		{
			Rule: "validity ends by the wall clock too", File: "lease.go",
			Old: " || !now.Round(0).Before(until.Round(0))", New: "", Test: "TestReachedBelievesTheLaterClock",
		},
		{
			Rule: "validity ends by the monotonic clock too", File: "lease.go",
			Old: "!now.Before(until) || ", New: "", Test: "TestReachedBelievesTheLaterClock",
		},
		{
			Rule: "expiry is terminal", File: "lease.go",
			Old: "l.ended = true\n\treturn false", New: "return false", Test: "TestLeaseExpiryIsTerminal",
		},
		{
			Rule: "no extend shortens a life", File: "scripts/touch.lua",
			Old: "px, fence_px = ttl, ttl + retention", New: "", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "no entry of the ledger goes back", File: "lease.go",
			Old: "l.until[i].Before(until)", New: "true", Test: "TestLeaseNeverShortens",
		},
		{
			Rule: "fences outlive 3S", File: "ballot.go",
			Old: "retention = 20 * time.Second", New: "retention = 10 * time.Second", Test: "TestBallotBounds",
		},
	}
}

func fences() []Mutant {
	return []Mutant{
		{
			Rule: "a ballot must be above the fence", File: "scripts/acquire.lua",
			Old: "if p > c and near", New: "if near", Test: "TestCase08_LateAcquireCreatesNothing",
		},
		{
			Rule: "a ballot must be above the fence, in the twin", File: "redlocktest/scripts.go",
			Old: "if p > c && near", New: "if near", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a ballot lies near the node's clock", File: "scripts/acquire.lua",
			Old: "p - now <= skew_bound and now - p <= skew_bound", New: "true", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a ballot lies near the node's clock, in the twin", File: "redlocktest/scripts.go",
			Old: "near := abs(p-now) <= skewBound", New: "near := abs(p-now) >= 0", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "ballots of a client grow", File: "ballot.go",
			Old: "p = last + 1", New: "p = last", Test: "TestBallotsAreFreshAndGrow",
		},
		{
			Rule: "a release raises the fence", File: "scripts/release.lua",
			Old: "if c < h then", New: "if false then", Test: "TestCase08_LateAcquireCreatesNothing",
		},
		{
			Rule: "a release raises the fence where the value has no ballot", File: "scripts/release.lua",
			Old: " and string.sub(held, -#ARGV[2]) == ARGV[2]", New: "", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "S and R of the scripts are the client's", File: "scripts/lib.lua",
			Old: "5000000, 20000", New: "5000000, 10000", Test: "TestScriptsKnowTheBounds",
		},
		{
			Rule: "a release raises the fence up to now + 2S", File: "scripts/release.lua",
			Old: "now + 2 * skew_bound", New: "now + skew_bound", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a key comes back only above the fence", File: "scripts/touch.lua",
			Old: "elseif q > c and", New: "elseif", Test: "TestCase08_LateExtendCreatesNothing",
		},
		{
			Rule: "a key comes back only within the validity", File: "scripts/touch.lua",
			Old: " and now < tonumber(ARGV[4])", New: "", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a broken grant does not come back", File: "scripts/touch.lua",
			Old: "and not buried(redis.call('GET', KEYS[3]))", New: "", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a broken grant does not come back, in the twin", File: "redlocktest/scripts.go",
			Old: "!s.buried(keys.at(3), value, number(argv.at(2)))", New: "true", Test: "TestBreakLeavesATombstoneWhereTheKeyWasMissing",
		},
		{
			Rule: "the highest ballot broken stands for all below", File: "scripts/touch.lua",
			Old: "(tonumber(stone) or 0) >= tonumber(ARGV[2])", New: "stone == ARGV[2]", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a later break frees nobody broken before", File: "scripts/break.lua",
			Old: "  stone = old\n", New: "", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a break raises the fence", File: "scripts/break.lua",
			Old: "if c < g and", New: "if false and", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a break raises the fence, in the twin", File: "redlocktest/scripts.go",
			Old: "if c < g &&", New: "if c < 0 &&", Test: "TestBreakRefusesTheLateAcquire",
		},
		{
			Rule: "a break takes the lock from none but the observed", File: "scripts/break.lua",
			Old: "if held and held ~= ARGV[1] then", New: "if false then", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a break takes the lock from none but the observed, in the twin", File: "redlocktest/scripts.go",
			Old: "isHeld && held != argv.at(1)", New: "isHeld && held == argv.at(9)", Test: "TestBreakTakesNoOtherHolder",
		},
	}
}

func cleanUp() []Mutant {
	return []Mutant{
		{
			Rule: "a release deletes only its own", File: "scripts/release.lua",
			Old: "if owned(held, ARGV[1]) then", New: "if true then", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a release deletes only its own, in the twin", File: "redlocktest/scripts.go",
			Old: "if owned(held, argv.at(1)) {", New: "if held != argv.at(9) {", Test: "TestSpec_ReleaseOnlyOwn",
		},
		{
			Rule: "a late grant of a lost attempt is undone", File: "acquire.go",
			Old: "return a.lost\n", New: "return false\n", Test: "TestLateGrantOfALostAttemptIsUndone",
		},
		{
			Rule: "an attempt is undone with its latest ballot", File: "acquire.go",
			Old: "m.releaseCall(a.says, ", New: "m.releaseCall(newValueWords(a.id, 1), ", Test: "TestAttemptUndoesEveryProposal|TestCase08_LateAcquireCreatesNothing",
		},
		{
			Rule: "a release carries the highest ballot sent", File: "grant.go",
			Old: "return g.high, g.life", New: "return g.token, g.life", Test: "TestCase08_LateExtendCreatesNothing|TestLateExtendAfterUnlockAndOtherHands",
		},
		{
			Rule: "nothing is proposed for a grant that was released", File: "grant.go",
			Old: "if g.over {", New: "if false {", Test: "TestGrantProposesNothingOnceReleased",
		},
		{
			Rule: "a waiter that gives up owes its leave", File: "wake.go",
			Old: "if a.err != nil && !permanent(a.err) {", New: "if false {", Test: "TestWaitSim_LeavesTheQueueOfANodeThatReturns",
		},
		{
			Rule: "an attempt that failed is undone", File: "acquire.go",
			Old: "if owed.has(i) {", New: "if owed.has(i) && n == nil {", Test: "TestSpec_FailureUnlocksAllNodes",
		},
		{
			Rule: "an unlock is sent though its ctx has ended", File: "release.go",
			Old:  "func (m *Mutex) release(ctx context.Context, g *grant) error {\n",
			New:  "func (m *Mutex) release(ctx context.Context, g *grant) error {\n\tif err := ctx.Err(); err != nil {\n\t\treturn err\n\t}\n",
			Test: "TestCase07_UnlockWithEndedCtxStillReleases",
		},
		{
			Rule: "what an extend may have brought is owed", File: "grant.go",
			Old: "g.won.extended()", New: "", Test: "TestJanitorOwesWhatAnExtendBrought",
		},
		{
			Rule: "the janitor tries again", File: "janitor.go",
			Old: "d.last = a.err; a.err == nil {", New: "d.last = a.err; true {", Test: "TestJanitorReleasesANodeThatReturns",
		},
		{
			Rule: "the janitor ends", File: "janitor.go",
			Old: "if reached(time.Now(), d.until) {", New: "if false {", Test: "TestJanitorGivesUpInTheEnd",
		},
		{
			Rule: "all of several names or none", File: "multi.go",
			Old: "sum.partial = granted &&", New: "sum.partial = granted && false &&", Test: "TestMultiMutexAllOrNone",
		},
		{
			Rule: "a failed re-entry deletes nothing", File: "acquire.go",
			Old: "if m.config.reentry {\n\t\treturn\n", New: "if false {\n\t\treturn\n", Test: "TestReentryRefreshes",
		},
	}
}

func guard() []Mutant {
	return []Mutant{
		{
			Rule: "a node that forgot does not grant", File: "scripts/guard.lua",
			Old: "if free > now then", New: "if false then", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLuaAcrossRestarts",
		},
		{
			Rule: "a node that forgot does not grant, in the twin", File: "redlocktest/scripts.go",
			Old: "if free > now {", New: "if free < 0 {", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLuaAcrossRestarts",
		},
		{
			Rule: "an extend does not count in quarantine", File: "grant.go",
			Old: "if a.last > 0 {", New: "if false {", Test: "TestGuardExtendsDoNotCountInQuarantine",
		},
		{
			Rule: "a node's uptime counts the seconds begun", File: "redlocktest/scripts.go",
			Old: "up := (uptime - 1) * 1000", New: "up := uptime * 1000", Test: "TestGuardQuarantineEnds",
		},
		{
			Rule: "another run_id means a restart", File: "scripts/guard.lua",
			Old: "elseif seen then\n    free = now + hold * 1000", New: "elseif seen then\n    free = 0", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLuaAcrossRestarts",
		},
		{
			Rule: "no hold is longer than the guard's", File: "mutex.go",
			Old: "if c.guard > 0 && d > c.guard {", New: "if false {", Test: "TestGuardBoundsEveryHold",
		},
	}
}

func waiting() []Mutant {
	return []Mutant{
		{
			Rule: "contenders that split the nodes come again at once", File: "judge.go",
			Old: "no.split = true", New: "no.split = false", Test: "TestSplitVotesAreToldFromAHolder",
		},
		{
			Rule: "new clients know the way from the first replies", File: "redlock.go",
			Old: "return r.farthest()", New: "return 0", Test: "TestWaitSim_NewClientsDoNotStandOff",
		},
		{
			Rule: "a node that does not answer is sent less", File: "lanes.go",
			Old: "n.narrow(now.Add(-took))", New: "_ = n.narrow", Test: "TestOverloadEnds|TestLanesWidenWithAnswers",
		},
		{
			Rule: "a silent node gets probes only", File: "lanes.go",
			Old: "return l.silent.Load() >= suspectFaults &&", New: "return false &&", Test: "TestSuspectIsAskedLittle",
		},
		{
			Rule: "silence towards the impatient is none towards others", File: "lanes.go",
			Old: "int64(patience) <= l.waited.Load()", New: "patience > 0", Test: "TestSuspectOfTheImpatientOnly",
		},
		{
			Rule: "an unlock is not confirmed by a node that somebody else has", File: "release.go",
			Old: "a.code == codeMissing && !q.expected", New: "!q.expected", Test: "TestUnlockSeesAnotherHolder",
		},
		{
			Rule: "Close waits for attempts", File: "mutex.go",
			Old: "	m.r.tasks.add(1)\n	defer m.r.tasks.done()\n", New: "", Test: "TestCloseWaitsForAttempts|TestNoAttemptBeginsAfterClose",
		},
		{
			Rule: "what a set took in passing is called for", File: "acquire.go",
			Old: "held && len(m.names) == 1", New: "held", Test: "TestMultiMutexCallsForWhatItTookInPassing",
		},
		{
			Rule: "a grant that the replies ended has expired", File: "judge.go",
			Old: "why = []error{ErrExpired, ErrNoQuorum}", New: "why = []error{ErrNoQuorum}", Test: "TestWhatIsOverByTheRepliesIsExpired",
		},
		{
			Rule: "a busy node gets one batch at a time", File: "pool/internal/batch/batch.go",
			Old: " || b.leaders > b.limit()", New: "", Dir: "pool/internal/batch", Test: "TestOneBatchAtATimeUnderLoad",
		},
		{
			Rule: "a release hands over", File: "scripts/release.lua",
			Old: "hand_over(popped, KEYS[3], KEYS[1], ARGV[3] == '2')", New: "0", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a woken waiter that goes passes the call on", File: "scripts/leave.lua",
			Old: "redis.call('EXISTS', KEYS[1]) == 1", New: "true", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a call for one who is gone is passed on", File: "wake.go",
			Old: "if !won {", New: "if won {", Test: "TestNoticeFindsItsWaiter",
		},
		{
			Rule: "the queue is in the order of tickets", File: "scripts/acquire.lua",
			Old: "'NX', ARGV[7], member", New: "'NX', 0, member", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "whoever is first in a queue is told so", File: "scripts/queue.lua",
			Old: "if first then", New: "if false then", Dir: "redlocktest", Test: "TestTwinsBehaveLikeTheLua",
		},
		{
			Rule: "a release after a wait has whoever becomes the first told", File: "release.go",
			Old: "if q.tellers.has(n.index) {", New: "if false {", Test: "TestWhoBecomesFirstIsTold",
		},
		{
			Rule: "a place is left once its reply is in", File: "wait.go",
			Old: "if out > 0 {", New: "if out < 0 {", Test: "TestPlacesAreLeftWhenTheReplySaysSo",
		},
		{
			Rule: "turns go by arrival", File: "turn.go",
			Old: "close(q.waiting[0].come)\n\tq.waiting = q.waiting[1:]",
			New: "close(q.waiting[len(q.waiting)-1].come)\n\tq.waiting = q.waiting[:len(q.waiting)-1]", Test: "TestTurnsAreFIFO",
		},
	}
}

func holding() []Mutant {
	return []Mutant{
		{
			Rule: "a held context ends a margin before the lock", File: "renew.go",
			Old: "min(expiry/20, time.Second)", New: "min(expiry/20, 0)", Test: "TestCase30_MarginBeforeTheEnd",
		},
		{
			Rule: "a held context reads the clocks", File: "renew.go",
			Old: "h := c.hold; h.over(time.Now())", New: "h := c.hold; h == nil", Test: "TestHeldContextReadsTheClocks",
		},
		{
			Rule: "a failed renewal is repeated within the validity", File: "renew.go",
			Old: "min(max(expiry/20, minRenewRetry), maxRenewRetry)", New: "expiry", Test: "TestRenewalIsRepeatedWithinTheValidity",
		},
	}
}
