from shared.answers.ndcg import ndcg


def test_ndcg_is_one_for_the_best_order_and_less_for_a_later_place() -> None:
    assert ndcg([True, True, False], 2) == 1.0
    assert ndcg([False, True, True], 2) < ndcg([True, False, True], 2) < 1.0
    assert ndcg([False], 0) == 0.0
