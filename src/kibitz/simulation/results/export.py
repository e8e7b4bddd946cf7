"""Results as pandas data frames and Parquet files."""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kibitz._files import check_target, write_atomic
from kibitz._validation import one_of

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import xarray


def to_pandas(data: "xarray.Dataset", variable: str | None = None) -> "pandas.DataFrame":
    """Return a result as a pandas data frame in long form, with plain columns.

    Parameters
    ----------
    data
        A result of `simulate`, `sweep`, `race`, `league` or `compare`.
    variable
        The variable to return, such as "regret": one row for each combination of its coordinates
        (policy, run and stage). By default, the rows are the policies, swept values and runs, and the
        columns all variables that have one value for each of them, such as `final_regret`; each arm
        has a column of `n_pulls` and `n_looks` ("n_pulls_0", "n_pulls_1", ...).
    """
    import xarray

    if not isinstance(data, xarray.Dataset):
        raise ValueError(f"data must be a result of kibitz, got {type(data)}")
    if variable is not None:
        one_of(variable, "variable", tuple(map(str, data.data_vars)))
        frame = data[[variable]].to_dataframe().reset_index()
    else:
        columns = data.drop_vars([name for name in data.data_vars if "stage" in data[name].dims])
        for name, values in columns.data_vars.items():
            if "arm" in values.dims:
                by_arm = {
                    f"{name}_{arm.item()}": values.sel(arm=arm, drop=True) for arm in values["arm"]
                }
                columns = columns.drop_vars(str(name)).assign(by_arm)
        columns = columns.drop_dims(["stage", "arm"], errors="ignore")
        if not columns.data_vars:
            names = ", ".join(map(str, data.data_vars))
            raise ValueError(
                f"data has one value for each stage only; pass variable=, one of {names}"
            )
        frame = columns.to_dataframe().reset_index()
    frame.attrs = {name: value for name, value in data.attrs.items() if isinstance(value, str | int)}
    return frame


def to_parquet(
    data: "xarray.Dataset", file: str | os.PathLike[str], variable: str | None = None
) -> None:
    """Write a result to a Parquet file, with the columns of `to_pandas`.

    The attributes of the result are in the metadata of the file. Parquet needs the extra `parquet`.

    Parameters
    ----------
    data, variable
        As in `to_pandas`.
    file
        The file to write; an existing file is replaced.
    """
    if find_spec("pyarrow") is None:
        raise ValueError("pyarrow is not installed; run: pip install 'kibitz[parquet]'")
    target, frame = check_target(file, "file"), to_pandas(data, variable)
    write_atomic(target, lambda open_file: frame.to_parquet(open_file, index=False), "file")
