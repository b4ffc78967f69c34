"""Ways to be wrong: each changes a few lines of the real code, and some check must notice.

docs/correctness.md says what each line is for. A patch that no longer applies fails by name; mend it with the code.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement; `old` stands in the file exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A wrong program, and who must notice; without tests, the simulation."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...] = ()


def _mutant(name: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, (Edit(file, old, new),), tests)


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "commit before the flush",
        (
            Edit(
                "shared/log/consume.py",
                """            if self.options.before_commit is not None:
                await self.options.before_commit()
            consumer = self.consumer()
""",
                """            consumer = self.consumer()
""",
            ),
            Edit(
                "shared/log/consume.py",
                """            for lane, low in lows.items():
                lane.committed, lane.marked = low, marks[lane]
""",
                """            for lane, low in lows.items():
                lane.committed, lane.marked = low, marks[lane]
            if self.options.before_commit is not None:
                await self.options.before_commit()
""",
            ),
        ),
    ),
    _mutant(
        "commit what is finished, whatever is not before it",
        "shared/log/partition_lane.py",
        "return next(iter(self._unfinished), self.next)",
        "return self.next",
    ),
    _mutant(
        "a stage that writes statuses commits without a flush",
        "services/ingest_worker/chunking.py",
        "        await self.index.flush()  # before the commit",
        "        # before the commit",
    ),
    _mutant(
        "no fence: the head goes wherever the last writer says",
        "shared/state/index.py",
        "await self._store.put_if(self._heads, [*points.values()], condition)",
        "await self._store.put_if(self._heads, [*points.values()], Filter())",
    ),
    _mutant(
        "chunk whatever is in the truth",
        "services/ingest_worker/chunking.py",
        "        overtaken = _overtaken(document, head, entry)\n",
        "        overtaken = False\n",
        "tests/unit/services/ingest_worker/test_chunking.py",
    ),
    _mutant(
        "what is erased while it is chunked comes back into the log",
        "services/ingest_worker/chunking.py",
        "into the log again.\n            if not (await self._answerable(document))[0]:\n",
        "into the log again.\n            if False:\n",
        "tests/unit/services/ingest_worker/test_chunking.py",
    ),
    _mutant(
        "an erasure passes by a text that is being chunked",
        "shared/contracts.py",
        'return None if key is None else key.partition(b"/")[0]',
        "return key",
        "tests/unit/shared/log/test_partition_lane.py",
    ),
    _mutant(
        "whoever is late leaves its points",
        "services/embed_worker/version_switch.py",
        "        return SwitchStep.WITHDRAW\n",
        "        return SwitchStep.END\n",
        "tests/property/test_apply_model.py",
    ),
    _mutant(
        "no head check: a search shows every version",
        "shared/store/edge_engine.py",
        "found is None or not _is_current(found, versions)",
        "found is None",
        "tests/contract/test_store.py::test_stale_points_in_front_do_not_take_places[edge]",
    ),
    _mutant(
        "delete every other version, not the older ones",
        "shared/state/index.py",
        'of_document(document_id, Range("metadata.version", lt=version)))',
        'Filter(must=of_document(document_id).must, must_not=(Match("metadata.version", (version,)),)))',
        "tests/unit/shared/state/test_index.py",
    ),
    _mutant(
        "the head before the points",
        "services/embed_worker/version_switch.py",
        """    SwitchStep.FENCE: SwitchStep.PUT,
    SwitchStep.PUT: SwitchStep.SWITCH,
    SwitchStep.SWITCH: SwitchStep.FORGET,
""",
        """    SwitchStep.FENCE: SwitchStep.SWITCH,
    SwitchStep.SWITCH: SwitchStep.PUT,
    SwitchStep.PUT: SwitchStep.FORGET,
""",
    ),
    _mutant(
        "skip the tombstone",
        "services/embed_worker/embed.py",
        "        for version in sorted(older):\n",
        "        for version in ():\n",
    ),
    _mutant(
        "ignore the version in a point's id",
        "shared/ids.py",
        '_name("point", document, str(version), str(order))',
        '_name("point", document, str(order))',
    ),
    _mutant(
        "a point's id from its text alone",
        "services/embed_worker/points.py",
        "point = point_id(document.document_id, document.version, chunk.order)",
        "point = point_id(chunk.hash, 0, 0)",
    ),
    _mutant(
        "reuse vectors across tenants",
        "shared/state/index.py",
        '_of_tenant(tenant, Filter(must=(Match("metadata.embeddedHash", tuple(sorted(missing))),))),',
        'Filter(must=(Match("metadata.embeddedHash", tuple(sorted(missing))),)),',
    ),
    _mutant(
        "search all tenants",
        "shared/state/index.py",
        'return Filter(must=(Match("metadata.tenant", (tenant,)), *where.must), must_not=where.must_not)',
        "return where",
    ),
    _mutant(
        "trust the client's hash",
        "services/ingest_worker/decisions.py",
        "else raw_hash,",
        "else submitted.hash or raw_hash,",
    ),
    _mutant(
        "dead-letter on a time-out",
        "shared/log/consume.py",
        """                except Unavailable as error:
                    lane.waiting[record.offset] = error.sentence
""",
        """                except Unavailable as error:
                    return self._failure(error.code, error.sentence, attempts, first_seen)
""",
    ),
    _mutant(
        "unchanged without looking at the head",
        "services/ingest_worker/accept.py",
        "    if same and _answers(answering, accepted) and not under_way:\n",
        "    if same and not under_way:\n",
    ),
    _mutant(
        "whoever comes late is taken",
        "services/ingest_worker/accept.py",
        "    if late(entry, place):\n",
        "    if False:\n",
    ),
    _mutant(
        "a version by the clock alone",
        "services/ingest_worker/accept.py",
        "return min(max(newest + 1, place.time), MAX_NATURAL)",
        "return min(place.time, MAX_NATURAL)",
    ),
    _mutant(
        "whoever is taken last is the newest",
        "shared/state/ledger.py",
        "    newest = entry.last if stays else update\n",
        "    newest = update\n",
        "tests/unit/services/ingest_worker/test_accept.py",
    ),
    _mutant(
        "the newest end is everybody's",
        "shared/state/ledger.py",
        "for each in (self.last, *self.earlier) if each.place == place), None)",
        "for each in (self.last,) if each.place == place), None)",
    ),
    _mutant(
        "a version's text is whoever's publishes it",
        "services/ingest_worker/version_publisher.py",
        "extraction, ref = await self._first_text(entry, extraction, ref)",
        "extraction, ref = extraction, ref",
        "tests/unit/services/ingest_worker/test_version_publisher.py",
    ),
    _mutant(
        "a point that is there is right, whatever its text",
        "services/embed_worker/embed.py",
        "if present == {id_: chunk.hash for id_, chunk in zip(ids, part, strict=True)}:",
        "if len(present) == len(ids):",
        "tests/unit/services/embed_worker/test_embed.py",
    ),
    _mutant(
        "whatever has the name is replaced",
        "services/ingest_worker/accept.py",
        "    if submission.on_conflict is not None and there and place != accepted.place:\n",
        "    if False:\n",
        "tests/unit/services/ingest_worker/test_accept.py",
    ),
    _mutant(
        "a conflict is decided anew each time",
        "services/ingest_worker/accept.py",
        "    if own is not None and (own.code in REFUSED or own.moved_to is not None):  # it was in conflict\n",
        "    if False:\n",
        "tests/unit/services/ingest_worker/test_accept.py",
    ),
    _mutant(
        "what is kept may be of a version that was followed",
        "services/ingest_worker/decisions.py",
        "if keeps and (seen.accepted.version if seen else 0) != (entry.accepted.version if entry else 0):",
        "if False:",
        "tests/unit/services/ingest_worker/test_decisions.py",
    ),
    _mutant(
        "a change of metadata is made to whatever version stands",
        "services/ingest_worker/accept.py",
        "    if if_version is not None and accepted.version != if_version and accepted.place != place:\n",
        "    if False:\n",
        "tests/unit/services/ingest_worker/test_decisions.py",
    ),
    _mutant(
        "a version that was withdrawn can still be switched to",
        "shared/state/index.py",
        "if standing.version >= head.version or (withdrawn is not None and withdrawn >= attempt):",
        "if standing.version >= head.version:",
        "tests/unit/services/embed_worker/test_embed.py",
    ),
    _mutant(
        "a redrive of a version that was withdrawn is in vain",
        "shared/state/index.py",
        "if standing.version >= head.version or (withdrawn is not None and withdrawn >= attempt):",
        "if standing.version >= head.version or withdrawn is not None:",
        "tests/unit/services/embed_worker/test_embed.py",
    ),
    _mutant(
        "a mark takes the place of another version's",
        "shared/state/index.py",
        "        others = (each for each in standing.withdrawals if each.version != version)\n",
        "        others = iter(())\n",
        "tests/unit/services/embed_worker/test_embed.py",
    ),
    _mutant(
        "whoever withdraws a version deletes what its redrive has written",
        "shared/state/index.py",
        "        await self._store.delete(self._chunks, Filter(must=where.must, must_not=(_after(attempt),)))\n",
        "        await self._store.delete(self._chunks, where)\n",
        "tests/unit/services/embed_worker/test_embed.py",
    ),
    _mutant(
        "an overtaken version never ends",
        "shared/state/ledger.py",
        '        return msgspec.structs.replace(each, status="superseded", at=update.at)\n',
        "        return each\n",
        "tests/unit/services/ingest_worker/test_accept.py",
    ),
    _mutant(
        "the ledger's last writer wins",
        "shared/state/ledger.py",
        'await self._store.put_if(COLLECTION, [*points.values()], unseen, fields=("writer",))',
        'await self._store.put_if(COLLECTION, [*points.values()], Filter(), fields=("writer",))',
    ),
    _mutant(
        "any version's end is the document's",
        "shared/state/ledger.py",
        "        if each.version != version:\n            return each\n",
        "",
    ),
    _mutant(
        "sweep what is being written",
        "services/embed_worker/sweep.py",
        "    stale = [point for point in points if _version(point) < head.version]\n",
        "    stale = [point for point in points if _version(point) != head.version]\n",
    ),
    _mutant(
        "an erasure takes blobs of whatever age",
        "services/query_api/ops/eraser.py",
        "await collect(self.base.blobs, (fence.tenant, name), kept[name], age_s)",
        "await collect(self.base.blobs, (fence.tenant, name), kept[name], age_s * 0)",
    ),
    _mutant(
        "what a switch has overtaken is not searched again",
        "shared/store/qdrant/store.py",
        "            moved = repeats < _REPEATS and any(",
        "            moved = repeats < 0 and any(",
        "tests/unit/shared/store/qdrant/test_store.py",
    ),
    _mutant(
        "what is under way is marked by nobody",
        "shared/log/consume.py",
        "stage=stage, handle_alone=handle_alone, options=options",
        "stage=stage, options=options",
        "tests/contract/test_consume.py::test_what_was_under_way_when_a_worker_died_is_handled_alone_and_what_comes_later_is_not[sqlite]",
    ),
    _mutant(
        "a mark is written when its records are done",
        "shared/log/consume.py",
        "            if self.handle_alone is not None and record.offset >= lane.marked:\n",
        "            if False:\n",
        "tests/contract/test_consume.py::test_a_mark_is_there_before_the_records_it_speaks_of_and_rides_on_every_commit[sqlite]",
    ),
    _mutant(
        "a commit leaves no mark",
        "shared/log/consume.py",
        "end = lane.suspects if ended or self.handle_alone is None else max(lane.suspects, lane.started + _AHEAD)\n",
        "end = lane.suspects\n",
        "tests/contract/test_consume.py::test_a_mark_is_there_before_the_records_it_speaks_of_and_rides_on_every_commit[sqlite]",
    ),
    _mutant(
        "a clean end leaves a mark",
        "shared/log/consume.py",
        "        ended = lane.closing.is_set() and not lane.tasks\n",
        "        ended = False\n",
        "tests/contract/test_consume.py::test_what_was_under_way_when_a_worker_died_is_handled_alone_and_what_comes_later_is_not[sqlite]",
    ),
    _mutant(
        "what arrives after a worker's death is handled alone, too",
        "shared/log/consume.py",
        "lane.suspects = min(int(found[1]), (await consumer.end_offsets([lane.tp]))[lane.tp])",
        "lane.suspects = int(found[1])",
        "tests/contract/test_consume.py::test_what_was_under_way_when_a_worker_died_is_handled_alone_and_what_comes_later_is_not[sqlite]",
    ),
    _mutant(
        "a second death forgets what the first has left",
        "shared/log/consume.py",
        "                mark = max(lane.suspects, lane.started + _AHEAD)\n",
        "                mark = lane.started + _AHEAD\n",
        "tests/contract/test_consume.py::test_a_second_death_among_what_is_handled_alone_forgets_none_of_it[sqlite]",
    ),
    _mutant(
        "what hung when its worker was stopped is an ordinary record",
        "shared/log/consume.py",
        "                if self.handle_alone is not None and lane.tasks & late:",
        "                if False:",
        "tests/contract/test_consume.py::test_what_hung_when_its_worker_was_stopped_is_handled_alone[sqlite]",
    ),
    _mutant(
        "a small text is read in the worker that it has killed",
        "services/ingest_worker/parsers.py",
        """            if _alone.get():
                return await self._ask_alone(""",
        """            if False:
                return await self._ask_alone(""",
        "tests/integration/test_parsers.py::test_a_record_that_kills_its_child_once_goes_its_way",
    ),
    _mutant(
        "a record is given up at its first death",
        "services/ingest_worker/parsers.py",
        "_TRIES_ALONE = 2 ",
        "_TRIES_ALONE = 1 ",
        "tests/integration/test_parsers.py::test_a_record_that_kills_its_child_once_goes_its_way",
    ),
    _mutant(
        "all records that may have killed the worker are read at once",
        "services/ingest_worker/parsers.py",
        "        async with self._suspect:\n",
        "        async with asyncio.Lock():\n",
        "tests/integration/test_parsers.py::test_what_is_handled_alone_is_read_one_at_a_time",
    ),
    _mutant(
        "a record in bounded tries pauses its partition",
        "shared/log/consume.py",
        """                    lane.waiting.pop(record.offset, None)
                    lane.resting[record.offset] = error.sentence
""",
        """                    lane.waiting[record.offset] = error.sentence
                    lane.resting[record.offset] = error.sentence
""",
        "tests/contract/test_consume.py::test_a_record_in_bounded_tries_holds_up_its_own_key_only[sqlite]",
    ),
    _mutant(
        "a long chain of records is held whole",
        "shared/log/partition_lane.py",
        "            if not chain or (len(chain) < HELD and self.bytes + size(record) <= self._room):\n",
        "            if True:\n",
        "tests/contract/test_consume.py::test_thousands_of_records_of_one_key_hold_up_their_own_key_only[sqlite]",
    ),
    _mutant(
        "a partition's records start in the order they came in, whosever they are",
        "shared/log/partition_lane.py",
        "                self._ready.put(self._tenants[name], name)\n            if",
        '                self._ready.put("", name)\n            if',
        "tests/contract/test_consume.py::test_a_neighbours_record_behind_hundreds_of_one_tenant_is_among_the_first[sqlite]",
    ),
    _mutant(
        "a record keeps its place between bounded tries",
        "shared/log/consume.py",
        "        while len(lane.tasks) - len(lane.resting) < most",
        "        while len(lane.tasks) < most",
        "tests/contract/test_consume.py::test_a_record_in_bounded_tries_holds_up_its_own_key_only[sqlite]",
    ),
    _mutant(
        "a text is at fault at its first refusal",
        "shared/embedder/refusals.py",
        "        if seen.times >= TRIES and len(",
        "        if seen.times >= 1 and len(",
    ),
    _mutant(
        "a refused text is compared with nothing",
        "shared/embedder/served.py",
        """            if error.perhaps_the_text:
                await self._embed([self._prefixes.document + sample])
                return
""",
        """            if error.perhaps_the_text:
                return
""",
        "tests/unit/shared/embedder/test_served.py",
    ),
    _mutant(
        "a file's time is the clock's",
        "services/ingest_worker/extract/limits.py",
        "    return max(cpu_s, wall_s / wall_factor)\n",
        "    return wall_s\n",
        "tests/integration/test_parsers.py::test_time_that_the_machine_has_for_others_does_not_count",
    ),
    _mutant(
        "a head that was written is searched as it was",
        "shared/store/edge_engine.py",
        "                self.heads.pop(identifier, None)\n",
        "                pass\n",
        "tests/unit/shared/store/test_edge_engine.py",
    ),
    _mutant(
        "good texts are embedded again with each try",
        "shared/embedder/gather.py",
        "            self._keep(asks)\n",
        "",
        "tests/unit/shared/embedder/test_served.py",
    ),
    _mutant(
        "a replay in vain fails what answers",
        "shared/state/statuses.py",
        "        if answering is None:\n",
        "        if True:\n",
        "tests/unit/services/ingest_worker/test_chunking.py",
    ),
    _mutant(
        "a rewrite that forgets what was written meanwhile",
        "shared/store/edge_engine.py",
        """        while self.copy_touched(_COPIED):
            pass
        copy.shard.flush()""",
        """        copy.shard.flush()""",
        "tests/unit/shared/store/test_engine_rewrite.py::test_what_is_written_while_it_is_copied_is_neither_lost_nor_old",
    ),
    _mutant(
        "a rewrite of the store's own that goes before the operator's",
        "shared/store/collection_compaction.py",
        "            self._due.drop_copy()\n",
        "            pass\n",
        "tests/unit/shared/store/test_collection_compaction.py::test_given_an_operator_who_forgets_when_a_rewrite_is_under_way_then_the_operator_goes_first",
    ),
    _mutant(
        "retention believes the wall clock after a restart",
        "shared/log/sqlite/clock.py",
        "off, before = off + max(0, low - before), None",
        "off, before = off + max(0, high - before), None",
        "tests/unit/shared/log/sqlite/test_clock.py::test_a_clock_that_is_wrong_for_a_day_adds_nothing_and_takes_nothing",
    ),
    _mutant(
        "retention by the newest milestone",
        "shared/log/sqlite/clock.py",
        "FROM milestone WHERE partition = ? AND age <= ?",
        "FROM milestone WHERE partition = ? AND age <= ? + 3600000",
        "tests/unit/shared/log/sqlite/test_clock.py",
    ),
    _mutant(
        "a backup with the offsets as they are at its end",
        "shared/log/sqlite/copying.py",
        'copied.execute("DELETE FROM committed")',
        "commits = []",
        "tests/unit/shared/log/sqlite/test_copying.py",
    ),
    _mutant(
        "a backup holds nobody up",
        "shared/log/sqlite/copying.py",
        "if not lock.try_lock(fcntl.LOCK_SH):",
        "if False:",
        "tests/unit/shared/log/sqlite/test_copying.py",
    ),
    _mutant(
        "a moved index is compared only by its ids",
        "services/operator_cli/moving/collections.py",
        "return one.payload == other.payload and",
        "return True or",
        "tests/integration/test_migrate.py::test_points_are_compared_to_the_last_bit",
    ),
    _mutant(
        "a log that was moved to counts its partitions from 0",
        "shared/log/headers.py",
        "return moves * PARTITIONS_PER_LOG + partition",
        "return partition",
        "tests/property/test_position_order.py",
    ),
    _mutant(
        "a moved log is compared only by the number of its records",
        "services/operator_cli/moving/move_log.py",
        "(wanted, wanted_sum) != (found, found_sum)",
        "wanted != found",
        "tests/integration/test_migrate_log.py::test_a_copy_that_differs_is_refused",
    ),
    _mutant(
        "the blob named inside a letter has no owner",
        "services/embed_worker/blob_collector.py",
        "        return names | names_in(record)",
        "        return names or names_in(record)",
        "tests/integration/test_blob_collection.py",
    ),
    _mutant(
        "a blob goes at the first look",
        "services/embed_worker/blob_collector.py",
        'elif now >= point.payload["since"] + GRACE_MS:',
        'elif now >= point.payload["since"]:',
        "tests/integration/test_blob_collection.py",
    ),
    _mutant(
        "a blob that was put again is removed by its old mark",
        "shared/blobs/file.py",
        "if not path.exists() or _put_of(path.stat()) != put:",
        "if not path.exists():",
        "tests/contract/test_blobs.py",
    ),
    _mutant(
        "a newer reader that gives the same text makes a new version",
        "services/ingest_worker/accept.py",
        "    return submission.text is not None and submission.text == accepted.text",
        "    return False",
        "tests/unit/services/ingest_worker/test_accept.py",
    ),
    _mutant(
        "a version that failed stays in the truth for ever",
        "services/embed_worker/embed.py",
        "        older |= published_below(entry, document.version)\n",
        "        pass\n",
    ),
    _mutant(
        "any number of versions that failed stays in the truth",
        "shared/state/ledger.py",
        "        return self.failed[: max(0, len(self.failed) - MOST_FAILED)]\n",
        "        return ()\n",
    ),
    _mutant(
        "a version in flight counts as one that failed",
        "services/ingest_worker/accept.py",
        '    if before in published and stands is not None and stands.status == "failed":\n',
        "    if before in published:\n",
    ),
    _mutant(
        "a version leaves the truth while a redrive may make it answer",
        "shared/state/version_deletion.py",
        "[each for each in entry.surplus if await index.withdraw_for_good(document_id, each, entry.tenant)]",
        "[*entry.surplus]",
        "tests/unit/shared/state/test_version_deletion.py",
    ),
    _mutant(
        "a replay brings a version back that left the truth",
        "shared/state/ledger.py",
        "        return version <= self.forgotten and version not in self.published\n",
        "        return False\n",
        "tests/unit/services/ingest_worker/test_chunking.py",
    ),
    _mutant(
        "the ledger forgets versions that have no tombstone yet",
        "shared/state/ledger.py",
        "    left = tuple(version for version in entry.published if version not in forgotten)\n",
        "    left = entry.published[-1:]\n",
    ),
    _mutant(
        "the sweep leaves stale versions in the truth",
        "services/embed_worker/sweep.py",
        "        await tombstone(publish, head.document_id, version)\n",
        "        pass\n",
        "tests/unit/services/embed_worker/test_sweep.py",
    ),
    _mutant(
        "an empty ledger is believed while it is rebuilt",
        "shared/state/ledger.py",
        "        if entry is None:\n            await self._gate.ledger()\n        return entry\n",
        "        return entry\n",
        "tests/unit/shared/state/test_rebuild_gate.py",
    ),
    _mutant(
        "what was lost is made before anybody is told",
        "shared/runtime/resources.py",
        "        known = await note_rebuild(store, decision.lost)\n",
        "        pass\n",
        "tests/unit/shared/runtime/test_resources.py",
    ),
    _mutant(
        "an empty index passes for a whole one where somebody made it before a worker came",
        "shared/runtime/resources.py",
        "if known is not None and known.takes(generation.heads, generation.chunks):",
        "if not {generation.heads, generation.chunks}.isdisjoint(decision.lost):",
        "tests/unit/shared/runtime/test_resources.py",
    ),
    _mutant(
        "a store that is lost twice gets a generation's number twice",
        "shared/runtime/resources.py",
        "        await pairing.tell_registry(send, wanted)\n",
        "        pass\n",
        "tests/unit/shared/runtime/test_resources.py",
    ),
    _mutant(
        "what is left of a lost generation is fed",
        "shared/state/generations.py",
        "return tuple(each for each in self.generations if not each.lost)",
        "return self.generations",
        "tests/unit/services/ingest_worker/test_store_recovery.py",
    ),
    _mutant(
        "the gate opens while chunks are left to embed",
        "shared/log/groups.py",
        "        return await unread(log, embed_group, topic, self.chunked)\n",
        "        return 0\n",
    ),
    _mutant(
        "the gate opens before every process knows of the successor",
        "services/ingest_worker/store_recovery.py",
        "            if not self.alone and not self.generations.everybody_knows(registered.id):\n",
        "            if False:\n",
        "tests/unit/services/ingest_worker/test_store_recovery.py",
    ),
    _mutant(
        "who hasn't turned to the successor believes what is left",
        "shared/state/index.py",
        "await self._gate.points(self._heads, self._chunks)",
        "await self._gate.points()",
        "tests/unit/shared/state/test_rebuild_gate.py",
    ),
    _mutant(
        "who folds the ledger late undoes what was accepted since",
        "services/ingest_worker/store_recovery.py",
        "            if seen is not None and seen.accepted.version >= wanted.accepted.version:\n",
        "            if False:\n",
        "tests/unit/services/ingest_worker/test_store_recovery.py",
    ),
    _mutant(
        "a fill makes what was replaced",
        "services/ingest_worker/fill_records.py",
        '                    self._replaced.add(record.key or b"")\n',
        "                    pass\n",
        "tests/unit/services/ingest_worker/test_fill_records.py",
    ),
    _mutant(
        "in an empty index, what failed before a newer version came is tried again",
        "shared/state/statuses.py",
        "if document.version in entry.failed or entry.was_forgotten(document.version):",
        "if entry.was_forgotten(document.version):",
        "tests/unit/services/ingest_worker/test_chunking.py",
    ),
    _mutant(
        "an older store is taken for the log's own",
        "shared/state/pairing.py",
        "    if in_store.checkpoint < on_log.checkpoint:\n",
        "    if in_store.checkpoint < 0:\n",
        "tests/unit/shared/state/test_pairing.py",
    ),
    _mutant(
        "a rebuild forgets which submissions failed",
        "services/ingest_worker/history.py",
        "        return _failed(entry, failed.place, failed)\n",
        "        return entry\n",
        "tests/unit/services/ingest_worker/test_history.py",
    ),
    *(
        _mutant(
            f"history: {name}",
            "services/ingest_worker/history.py",
            was,
            now,
            "tests/unit/services/ingest_worker/test_history.py",
        )
        for name, was, now in (
            ("a version published again stays set aside", "if each[1].time >= at.time)", ")"),
            ("a letter of another generation counts", "if letter.generation in self._generations:", "if True:"),
            ("a lost generation's letter counts no more", "{None, generation, *before}", "{None, generation}"),
            ("an older submission is the newest", "if seen is None or older(seen.place, place):", "if True:"),
            ("what was replaced still stands", "            versions.pop(int(number), None)\n", "            pass\n"),
            ("what was erased stands at a past moment", "if erased(record) is not None:", "if False:"),
        )
    ),
    _mutant(
        "what was sent is compared beside unread records",
        "services/query_api/ingest/unchanged_check.py",
        "        return {self._sent[at] for at in unread} if unread <= self._sent.keys() else None\n",
        "        return {self._sent[at] for at in unread & self._sent.keys()}\n",
        "tests/integration/test_check.py",
    ),
    _mutant(
        "a document is spared though this process sent another text of it",
        "services/query_api/ingest/unchanged_check.py",
        " for id_ in alike if id_ not in undecided}",
        " for id_ in alike}",
        "tests/integration/test_check.py",
    ),
)
